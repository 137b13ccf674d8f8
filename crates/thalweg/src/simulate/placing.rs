//! Memory where it does most good: the run before the run.
//!
//! With `switchv2p+curves` a first run has memory divided equally, and sends the first part of the
//! trace; each switch notes what caches of other sizes would have hit. The lines are then dealt out by
//! these curves, as many as before, and the run that counts begins, with empty caches and the whole
//! trace. So the placement has seen a part of what it is judged by, as an operator has who measures
//! today and places for tomorrow: `measure_percent` says how much.

use std::borrow::Cow;

use anyhow::Result;
use thalweg_fabric::{Config, Simulation, place_memory};

use super::files::Traffic;
use super::runs::Run;
use crate::failure::bad_input;

/// Lines of a set in caches of [`thalweg_v2p::Profile::Plus`].
const SET_ENTRIES: u32 = 4;

/// Of a larger cache nothing is known; there are fewer machines in any fabric of a plan that fits.
const MOST_ENTRIES: usize = 1 << 20;

/// The configuration of a run, with memory placed if that is its scheme.
///
/// # Errors
/// If the run cannot begin.
pub(super) fn placed<'a>(run: &'a Run, traffic: &Traffic) -> Result<Cow<'a, Config>> {
    let Some(percent) = run.measure_percent else {
        return Ok(Cow::Borrowed(&run.config));
    };
    let lines = traffic.trace.len() * percent as usize;
    // Lines need not be in the order of time; the first are those that begin first.
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
