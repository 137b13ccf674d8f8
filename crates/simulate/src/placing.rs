//! Places memory where it helps most, by a preliminary run.
//!
//! With `switchv2p+curves`, a first run divides memory equally and sends the first part of the
//! trace. Each switch estimates the hits of other cache sizes. The same number of lines is
//! then distributed by these curves. The main run begins with empty caches and sends the whole
//! trace. So the placement has seen a part of the traffic that it is judged by, as an operator
//! measures today and places for tomorrow. `measure_percent` gives that part.

use std::borrow::Cow;

use anyhow::Result;
use thalweg_fabric::{Config, Simulation, place_memory};

use super::files::Traffic;
use super::runs::Run;
use thalweg_command::failure::bad_input;

/// Lines in a set of a cache of [`thalweg_v2p::Profile::Plus`].
const SET_ENTRIES: u32 = 4;

/// The largest cache size that is estimated. Any fabric of a plan that fits has fewer
/// machines.
const MOST_ENTRIES: usize = 1 << 20;

/// The configuration of a run, with memory placed if its scheme does so.
///
/// # Errors
/// If the run cannot begin.
pub(super) fn placed<'a>(run: &'a Run, traffic: &Traffic) -> Result<Cow<'a, Config>> {
    let Some(percent) = run.measure_percent else {
        return Ok(Cow::Borrowed(&run.config));
    };
    let lines = traffic.trace.len() * percent as usize;
    // Trace lines may be out of order; the earliest count as the first.
    let mut trace = traffic.trace.clone();
    trace.sort_by_key(|line| line.start);
    trace.truncate(lines.div_ceil(100));
    let simulation = Simulation::new(&run.config, &trace);
    let mut simulation = simulation.map_err(bad_input)?;
    let most = (traffic.machine_count as usize * run.config.tenants.len().max(1)).max(1);
    simulation.measure_demand(most.min(MOST_ENTRIES));
    simulation.run();
    let entries = place_memory(simulation.demand(), run.total_entries, SET_ENTRIES);
    Ok(Cow::Owned(Config {
        switch_entries: Some(entries),
        ..run.config.clone()
    }))
}
