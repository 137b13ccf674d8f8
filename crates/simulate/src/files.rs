//! Reads the files that a plan names: the trace and the placement, gzipped or not.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Result;
use flate2::read::MultiGzDecoder;
use thalweg_config::{Generator, Machines, Plan, TrafficSource};
use thalweg_fabric::{
    BurstWorkload, FatTree, FlowWorkload, IncastWorkload, Placement, RpcWorkload, Sizes, Time,
    TraceLine, VideoWorkload, read_trace,
};

use super::hash::Hash;
use thalweg_command::failure::bad_input;

/// The traffic of a plan, and its placement.
pub(super) struct Traffic {
    /// The lines of the trace, after the plan's cuts.
    pub(super) trace: Vec<TraceLine>,
    /// `None` if machines are spread evenly over the servers of each fabric.
    placement: Option<Placement>,
    pub(super) machine_count: u32,
    /// Hash of the trace.
    pub(super) hash: Hash,
}

impl Traffic {
    /// Reads the files of a plan; missing ones are looked for in the folder `data`.
    ///
    /// # Errors
    /// If a file is missing or malformed; gives the line.
    pub(super) fn read(plan: &Plan, data: Option<&Path>) -> Result<Traffic> {
        let workload = &plan.workload;
        let (placement, machine_count) = placed(&workload.machines, data)?;
        let (name, mut trace) = match &workload.source {
            TrafficSource::Trace(path) => {
                let (name, reader) = open(path, data)?;
                let trace = read_trace(reader, &name).map_err(bad_input)?;
                (name, trace)
            }
            source => {
                let shape = plan.topologies.first().map(|planned| &planned.shape);
                let servers = shape.map_or(0, servers_of);
                let even = || Placement::even(machine_count, servers);
                let placement = placement.clone().unwrap_or_else(even);
                (
                    "the generated trace".to_owned(),
                    generate(source, &placement),
                )
            }
        };
        if let Some(micros) = workload.start_before_us {
            let end = Time::from_micros(micros);
            trace.retain(|line| line.start < end);
        }
        if let Some(limit) = workload.size_limit_bytes {
            trace
                .iter_mut()
                .for_each(|line| line.bytes = line.bytes.min(limit));
        }
        if trace.is_empty() {
            let what = "it has no lines, or none that the plan's cuts leave; check start_before_us";
            return Err(bad_input(format!("{name}: {what}")));
        }
        Ok(Traffic {
            hash: hash_of(&trace),
            trace,
            placement,
            machine_count,
        })
    }

    /// The placement of machines on `servers` servers.
    pub(super) fn placement(&self, servers: u32) -> Cow<'_, Placement> {
        match &self.placement {
            Some(placement) => Cow::Borrowed(placement),
            None => Cow::Owned(Placement::even(self.machine_count, servers)),
        }
    }
}

/// The placement, if a file gives it, and the number of machines.
fn placed(machines: &Machines, data: Option<&Path>) -> Result<(Option<Placement>, u32)> {
    let path = match machines {
        Machines::Even(count) => return Ok((None, *count)),
        Machines::Placed(path) => path,
    };
    let (name, reader) = open(path, data)?;
    let placement = Placement::read(reader, &name).map_err(bad_input)?;
    let count = placement.servers().iter().map(Vec::len).sum::<usize>();
    Ok((Some(placement), count as u32))
}

/// Number of servers in a fabric.
pub(super) fn servers_of(shape: &FatTree) -> u32 {
    shape.pods * shape.tors_per_pod * shape.servers_per_tor
}

/// The rate of a server's link in every plan.
const EDGE_BPS: u64 = 100_000_000_000;

/// Generates the traffic that a plan describes; absent parameters have the published values.
fn generate(source: &TrafficSource, placement: &Placement) -> Vec<TraceLine> {
    let &TrafficSource::Generated {
        generator,
        duration_us,
        load_percent,
        count,
        seed,
    } = source
    else {
        return Vec::new();
    };
    let duration = duration_us.map(Time::from_micros);
    let flows = |sizes| FlowWorkload {
        sizes,
        load: f64::from(load_percent.unwrap_or(30)) / 100.0,
        edge_bps: EDGE_BPS,
        duration: duration.unwrap_or(Time::from_micros(25_000)),
        seed,
    };
    let bursts = |described: BurstWorkload| {
        let workload = BurstWorkload {
            bursts: count.unwrap_or(described.bursts),
            duration: duration.unwrap_or(described.duration),
            ..described
        };
        workload.generate(placement)
    };
    let calls = |described: RpcWorkload| {
        let workload = RpcWorkload {
            calls: count.unwrap_or(described.calls),
            duration: duration.unwrap_or(described.duration),
            ..described
        };
        workload.generate(placement)
    };
    match generator {
        Generator::Hadoop => flows(Sizes::HADOOP).generate(placement),
        Generator::WebSearch => flows(Sizes::WEB_SEARCH).generate(placement),
        Generator::Microbursts => bursts(BurstWorkload::published(seed)),
        Generator::MicroburstsFitted => bursts(BurstWorkload::fitted(seed)),
        Generator::Video => {
            let published = VideoWorkload::published(seed);
            let workload = VideoWorkload {
                pairs: count.unwrap_or(published.pairs),
                duration: duration.unwrap_or(published.duration),
                ..published
            };
            workload.generate(placement)
        }
        Generator::Alibaba => calls(RpcWorkload::published(seed)),
        Generator::AlibabaFitted => calls(RpcWorkload::fitted(seed)),
        Generator::Incast => {
            let published = IncastWorkload::published(seed);
            let workload = IncastWorkload {
                senders: count.unwrap_or(published.senders),
                ..published
            };
            workload.generate(placement)
        }
    }
}

fn hash_of(trace: &[TraceLine]) -> Hash {
    let mut bytes = Vec::with_capacity(trace.len() * 28);
    for line in trace {
        bytes.extend(line.source.to_le_bytes());
        bytes.extend(line.destination.to_le_bytes());
        bytes.extend(line.start.as_picos().to_le_bytes());
        bytes.extend(line.flow.to_le_bytes());
        bytes.extend(line.bytes.to_le_bytes());
    }
    Hash::of(&bytes)
}

type Reader = Box<dyn BufRead>;

/// Opens a file at the plan's path, or by its name in the data folder.
fn open(path: &Path, data: Option<&Path>) -> Result<(String, Reader)> {
    let elsewhere = data.and_then(|folder| Some(folder.join(path.file_name()?)));
    let found = match &elsewhere {
        Some(other) if !path.exists() => other,
        _ => path,
    };
    let name = found.display().to_string();
    let cannot = |error: std::io::Error| {
        let hint = match data {
            Some(_) => "check the path",
            None => "check the path, or say with --data in which folder it is",
        };
        bad_input(format!("{name}: {error}; {hint}"))
    };
    let mut file = BufReader::with_capacity(1 << 16, File::open(found).map_err(cannot)?);
    let is_packed = file.fill_buf().map_err(cannot)?.starts_with(&[0x1f, 0x8b]);
    let reader: Reader = match is_packed {
        true => Box::new(BufReader::new(Limited::new(MultiGzDecoder::new(file)))),
        false => Box::new(BufReader::new(Limited::new(file))),
    };
    Ok((name, reader))
}

/// Longest trace, 4 GiB of text. It bounds what a packed file can expand to.
const MOST_BYTES: u64 = 1 << 32;

/// Reads up to [`MOST_BYTES`], and fails if there are more.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R> Limited<R> {
    fn new(inner: R) -> Limited<R> {
        Limited {
            inner,
            left: MOST_BYTES,
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = self.left.checked_sub(count as u64);
        self.left = left.ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::FileTooLarge,
                "it has more than 4 GiB of text; give a shorter one",
            )
        })?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_no_shorter_text() {
        let mut read = Limited {
            left: 5,
            ..Limited::new(&b"12345"[..])
        };
        let mut text = String::new();
        assert_eq!(read.read_to_string(&mut text).unwrap(), 5);
        let mut read = Limited {
            left: 5,
            ..Limited::new(&b"123456"[..])
        };
        let error = read.read_to_string(&mut text).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    }
}
