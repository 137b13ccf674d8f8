//! Writes snapshots now and then, on a thread of its own.
//!
//! ```text
//!   owner's loop: tend --> if it is time and the thread rests: capture --> thread: write
//!                      <-- what came of the last one
//! ```
//!
//! 1. One snapshot is written at a time, so a slow disk delays them, and nothing else.
//! 2. After a write that fails because of the file, the file is set aside, and the next write
//!    makes a new one.

use std::io;
use std::time::{Duration, Instant};

use thalweg_snapshot::{SnapshotError, SnapshotFile};

use super::capture::{Capture, SnapshotContents};
use super::records::SwitchNames;
use crate::switch::{Interrupter, Switch};
use crate::sync::{JoinHandle, Receiver, Sender, bounded, spawn};

/// Where snapshots are written, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotSettings {
    /// The file.
    pub file: SnapshotFile,
    /// The time from the end of one write to the beginning of the next.
    pub interval: Duration,
}

/// What came of a write.
type Written = Result<(SnapshotContents, Duration), SnapshotError>;

/// Writes snapshots of one switch.
pub struct SnapshotKeeper {
    settings: SnapshotSettings,
    sources: u32,
    captures: Option<Sender<Capture>>,
    outcomes: Receiver<Written>,
    thread: Option<JoinHandle<()>>,
    is_writing: bool,
    next: Instant,
    /// What the last write that succeeded holds, how long it took, and when it ended.
    last: Option<(SnapshotContents, Duration, Instant)>,
    written: u64,
    failed: u64,
}

impl SnapshotKeeper {
    /// Starts the thread; it interrupts the switch's poll after each write. `sources` goes into
    /// each snapshot ([`Switch::capture`]).
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub fn start(
        settings: SnapshotSettings,
        sources: u32,
        interrupter: Interrupter,
    ) -> io::Result<SnapshotKeeper> {
        let (captures, waiting) = bounded::<Capture>(1);
        let (told, outcomes) = bounded(1);
        let file = settings.file.clone();
        let thread = spawn("snapshots".to_owned(), move || {
            while let Ok(capture) = waiting.recv() {
                let begun = Instant::now();
                let written = capture.write(&file);
                let _ = told.send(written.map(|contents| (contents, begun.elapsed())));
                interrupter.interrupt();
            }
        })?;
        Ok(SnapshotKeeper {
            next: Instant::now() + settings.interval,
            settings,
            sources,
            captures: Some(captures),
            outcomes,
            thread: Some(thread),
            is_writing: false,
            last: None,
            written: 0,
            failed: 0,
        })
    }

    /// What it was started with.
    pub fn settings(&self) -> &SnapshotSettings {
        &self.settings
    }

    /// Sets what the next snapshots say of where rules came from.
    pub fn set_sources(&mut self, sources: u32) {
        self.sources = sources;
    }

    /// Begins the next snapshot if it is time; returns the error of the last one, if it failed.
    pub fn tend(
        &mut self,
        switch: &mut Switch,
        names: impl FnOnce() -> SwitchNames,
    ) -> Option<SnapshotError> {
        let failure = match self.outcomes.try_recv() {
            Ok(written) => self.note(written),
            Err(error) if error.is_disconnected() && self.is_writing => self.note(Err(ended())),
            Err(_) => None,
        };
        if !self.is_writing && Instant::now() >= self.next {
            self.begin(switch, &names());
        }
        failure
    }

    /// The time until it wants to be tended, at the most.
    pub fn rest(&self) -> Option<Duration> {
        let left = self.next.saturating_duration_since(Instant::now());
        (!self.is_writing).then_some(left)
    }

    /// Writes a last snapshot, and ends the thread.
    ///
    /// # Errors
    /// If it cannot be written; the one before is still there.
    pub fn finish(
        mut self,
        switch: &mut Switch,
        names: &SwitchNames,
    ) -> Result<SnapshotContents, SnapshotError> {
        if self.is_writing
            && let Ok(written) = self.outcomes.recv()
        {
            drop(self.note(written));
        }
        self.begin(switch, names);
        let written = self.outcomes.recv();
        self.end();
        match written {
            Ok(written) => written.map(|(contents, _)| contents),
            Err(_) => Err(ended()),
        }
    }

    /// How it goes, in lines.
    pub fn status(&self) -> String {
        let path = self.settings.file.path().display();
        let last = match &self.last {
            None => "none yet".to_owned(),
            Some((contents, took, ended)) => format!(
                "{} rules, {} groups, {} meters, {} stations, {} connections in {:.3} s, {:.1} s \
                 ago",
                contents.rules,
                contents.groups,
                contents.meters,
                contents.stations,
                contents.connections,
                took.as_secs_f64(),
                ended.elapsed().as_secs_f64()
            ),
        };
        format!(
            "snapshot file: {path}\nsnapshot interval: {} ms\nsnapshots written: {}\nsnapshots \
             failed: {}\nlast snapshot: {last}\n",
            self.settings.interval.as_millis(),
            self.written,
            self.failed
        )
    }

    fn begin(&mut self, switch: &mut Switch, names: &SwitchNames) {
        let capture = switch.capture(names, self.sources);
        if let Some(captures) = &self.captures {
            self.is_writing = captures.send(capture).is_ok();
        }
        if !self.is_writing {
            // The thread has ended.
            self.failed += 1;
            self.next = Instant::now() + self.settings.interval;
        }
    }

    fn note(&mut self, written: Written) -> Option<SnapshotError> {
        self.is_writing = false;
        let now = Instant::now();
        self.next = now + self.settings.interval;
        match written {
            Ok((contents, took)) => {
                self.written += 1;
                self.last = Some((contents, took, now));
                None
            }
            Err(error) => {
                self.failed += 1;
                // Invariant 2. If that fails, so does the next write.
                if error.is_of_file() {
                    let _ = self.settings.file.set_aside();
                }
                Some(error)
            }
        }
    }

    fn end(&mut self) {
        self.captures = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was told by the missing outcome.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for SnapshotKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SnapshotKeeper({:?})", self.settings)
    }
}

fn ended() -> SnapshotError {
    io::Error::other("the thread that writes has ended").into()
}

impl Drop for SnapshotKeeper {
    fn drop(&mut self) {
        // The thread must not wait for room for an outcome that has no reader.
        if self.is_writing {
            let _ = self.outcomes.recv();
        }
        self.end();
    }
}
