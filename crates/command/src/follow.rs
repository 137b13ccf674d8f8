//! Follows a change slice by slice, and times it.
//!
//! Until no packet can get an old answer, the caches prepare: they mark affected entries. Then
//! they repair them; meanwhile the interpreter answers a packet that meets a marked entry.
//! Both phases end together for maintainers that do everything before the next packet.

use thalweg_datapath::Work;
use thalweg_packet::Instant;
use thalweg_pipeline::{Change, ChangeError};
use thalweg_switch::{Engine, Step};

use crate::report::Unit;

/// Times and work of following a change.
#[derive(Clone, Copy, Default, Debug)]
pub struct Followed {
    /// Time until no packet can be answered by an older version.
    pub update_ns: u64,
    /// Time until every entry is right again.
    pub repair_ns: u64,
    /// The longest slice, in which no packet is forwarded.
    pub pause_ns: u64,
    /// What happened to the entries.
    pub work: Work,
}

/// Makes a change and follows it to the end. `between` is called after each slice but the
/// last, with the slice's number from 1; it is not timed.
///
/// # Errors
/// If the change is refused.
pub fn follow(
    engine: &mut Engine,
    change: &Change,
    now: Instant,
    clock: fn() -> u64,
    mut between: impl FnMut(&mut Engine, usize),
) -> Result<Followed, ChangeError> {
    let start = clock();
    engine.start(change, now)?;
    let mut followed = Followed {
        repair_ns: clock() - start,
        ..Followed::default()
    };
    for slice in 1.. {
        let start = clock();
        let step = engine.step();
        let slice_ns = clock() - start;
        followed.repair_ns += slice_ns;
        followed.pause_ns = followed.pause_ns.max(slice_ns);
        if step != Step::Preparing && followed.update_ns == 0 {
            followed.update_ns = followed.repair_ns;
        }
        if let Step::Settled(work) = step {
            followed.work = work;
            break;
        }
        between(engine, slice);
    }
    Ok(followed)
}

/// Makes a change and follows it until it is acknowledged. A lazy sweep continues behind later
/// packets, so what happens to entries is not known yet.
///
/// # Errors
/// If the change is refused.
pub fn acknowledge(
    engine: &mut Engine,
    change: &Change,
    now: Instant,
    clock: fn() -> u64,
) -> Result<Followed, ChangeError> {
    let start = clock();
    let update = engine.apply(change, now)?;
    let time_ns = clock() - start;
    Ok(Followed {
        update_ns: time_ns,
        repair_ns: time_ns,
        pause_ns: time_ns,
        work: update.work,
    })
}

/// Nanoseconds of the monotonic clock.
pub fn wall_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The changes so far, in a few words, for a progress line.
pub fn news(changes: usize, last_ns: f64, affected: u64, stale: Option<u64>) -> String {
    let time = Unit::Nanoseconds.format(last_ns);
    let stale = stale.map_or(String::new(), |stale| format!(", {stale} stale"));
    format!("{changes} changes, last {time}, {affected} affected{stale}")
}
