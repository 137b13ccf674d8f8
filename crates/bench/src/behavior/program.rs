//! Measures Figure 9 for the program form: the output of `thalweg p4 cache`, run by our
//! engine.

use std::sync::Arc;

use anyhow::{Context, Result};
use thalweg_p4::behavior::transform::{
    CacheEntries, Keeper, PREFIX, Transformed, report_of, transform,
};
use thalweg_p4::commands::Reader;
use thalweg_p4::program::ids::TableId;
use thalweg_p4::state::Update;
use thalweg_p4::{Config, Outbox, Program, Target, TraceStep};
use thalweg_packet::Instant;

use super::case::Case;
use thalweg_command::failure::bad_input;

/// Capacity of the cache table.
const ENTRIES: u32 = 10_240;

/// A transformed program with its entries, and the keeper that fills its cache.
pub(super) struct Cached {
    pub(super) target: Target,
    keeper: Keeper,
    entries: CacheEntries,
}

impl Cached {
    /// Creates an empty cache in front of a case; every miss is reported.
    ///
    /// # Errors
    /// If no cache can be put in front of it.
    pub(super) fn new(case: &Case) -> Result<Cached> {
        let wrong = |what: String| bad_input(format!("{}: {what}", case.path.display()));
        let made = transform(&case.text, ENTRIES).map_err(|error| wrong(error.to_string()))?;
        let Transformed { json, plan } = made;
        let program = Program::from_json(&json.to_string());
        let program = Arc::new(program.map_err(|error| wrong(error.to_string()))?);
        let entries = case.path.with_extension("cmds");
        let read = thalweg_command::p4_entries::read_entries(&entries, &mut Reader::new(&program))?;
        let updates: Vec<Update> = read.into_iter().map(|command| command.update).collect();
        let entries = CacheEntries::find(&program, &plan).context("the cache table is there")?;
        let target = Target::new(program, Config::default());
        let mut target = target.map_err(|error| wrong(error.to_string()))?;
        let written = target.write(&updates, Instant::ZERO);
        written.map_err(|failed| wrong(failed.error.to_string()))?;
        let mut cached = Cached {
            target,
            keeper: Keeper::new(plan),
            entries,
        };
        cached.set_threshold(0)?;
        Ok(cached)
    }

    /// Sets how often a behaviour must be seen before it is reported; the maximum disables
    /// reports.
    ///
    /// # Errors
    /// If the register is refused.
    pub(super) fn set_threshold(&mut self, threshold: u16) -> Result<()> {
        let registers = &self.target.program().arrays;
        let register = registers.find_register(&format!("{PREFIX}.threshold"));
        let register = register.context("a transformed program has a threshold")?;
        let set = Update::SetRegister(register, 0, threshold.into());
        let written = self.target.write(&[set], Instant::ZERO);
        written.map_err(|failed| bad_input(failed.error.to_string()))
    }

    /// Sends a packet through, and installs what it reports.
    ///
    /// # Errors
    /// If an entry of the cache is refused.
    pub(super) fn receive(&mut self, port: u32, packet: &[u8]) -> Result<()> {
        let mut outbox = Outbox::new();
        self.target
            .receive(port, packet, Instant::ZERO, &mut outbox);
        let program = self.target.program().clone();
        for report in outbox.digests().filter_map(|one| report_of(&program, &one)) {
            let updates = self.entries.updates(self.keeper.handle_report(&report));
            let written = self.target.write(&updates, Instant::ZERO);
            written.map_err(|failed| bad_input(failed.error.to_string()))?;
        }
        Ok(())
    }

    /// The cache table's number.
    pub(super) fn table(&self) -> TableId {
        self.entries.table
    }
}

/// Whether a packet hits the cache table.
pub(super) fn is_hit(target: &mut Target, table: TableId, port: u32, packet: &[u8]) -> bool {
    let steps = target.trace(port, packet, Instant::ZERO, &mut Outbox::new());
    let mut steps = steps.iter();
    steps.any(|step| matches!(step, TraceStep::Table(one, Some(_), _) if *one == table))
}
