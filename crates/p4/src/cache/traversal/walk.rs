//! Walks a pipeline with a cache in front of it.

use crate::program::control::Pipeline;
use crate::program::ids::NodeId;
use crate::run::engine::{Stop, Walk};
use crate::run::frame::Frame;

use super::record::Surroundings;
use super::segment::End;
use super::store::{Cache, Found};

impl Walk<'_> {
    /// Walks a pipeline to its end, or until `exit`, by segments; records them where there are
    /// none.
    ///
    /// # Errors
    /// Fails if the packet ends on the way.
    pub(crate) fn walk_cached(
        &mut self,
        cache: &mut Cache,
        pipeline: &Pipeline,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let mut next = pipeline.start;
        while let Some(node) = next {
            next = match cache.find(self.program, node, &frame.words) {
                Found::Segment(id) => {
                    let work = cache.work_of(id);
                    if work > *self.work_left {
                        // The packet ends within the segment; the interpreter finds out where.
                        return self.walk_from(Some(node), frame);
                    }
                    *self.work_left -= work;
                    let bytes = frame.ingress_length_bytes;
                    let segment = cache.use_segment(id, bytes, self.now);
                    self.perform(&segment.operations, frame)?;
                    match segment.end {
                        End::Done => None,
                        End::Before(node) => Some(node),
                        End::Visit(node) => {
                            cache.statistics.visits += 1;
                            self.visit(node, frame)?
                        }
                    }
                }
                Found::Miss(start) => self.fill(cache, start, frame)?,
                Found::Pass => return self.walk_from(Some(node), frame),
                Found::Refused => self.visit(node, frame)?,
            };
            if frame.wishes.has_exited {
                break;
            }
        }
        // The next pipeline begins without it.
        frame.wishes.has_exited = false;
        Ok(())
    }

    /// Records a segment and stores it. Returns the node at which the packet continues.
    // Not inlined, so that a hit does not pay for this stack frame.
    #[inline(never)]
    fn fill(
        &mut self,
        cache: &mut Cache,
        index: u32,
        frame: &mut Frame,
    ) -> Result<Option<NodeId>, Stop> {
        let start = &cache.starts[index as usize];
        let around = Surroundings {
            facts: &cache.facts,
            layout: &start.layout,
        };
        cache.statistics.recorded += 1;
        cache.recorder.begin(&start.origins, &start.layout);
        let outcome = self.record(around, &mut cache.recorder, start.node, frame);
        let recorded = match outcome {
            Ok(recorded) => recorded,
            Err(stop) => {
                cache.statistics.ended += 1;
                return Err(stop);
            }
        };
        let bytes = frame.ingress_length_bytes;
        let state = (&mut *self.tables, &mut *self.cells);
        match cache.insert(self.program, index, recorded.end, state) {
            Some(id) => {
                cache.use_segment(id, bytes, self.now);
            }
            None => self.credit(&cache.recorder.credits, 1, bytes),
        }
        Ok(recorded.next)
    }
}
