//! Keeps a switch's behaviour cache filled, and makes every change of its entries within a
//! barrier.
//!
//! ```text
//!   start:           the program with a cache in front --> switch; threshold; reports please
//!   handle_reports:  digest --> Keeper --> entries of the cache table
//!   change:          commands --> what they may affect leaves; the change; the next epoch
//! ```
//!
//! One controller does both, since a change that the keeper does not know would leave wrong
//! behaviours behind. It is the primary, and all changes of entries come in as commands here.
//!
//! 1. When [`Keeping::change`] returns, no behaviour is installed that the change made wrong,
//!    and none of a packet from before it will be. This also holds for a refused change.
//!
//! Reference: Zhang et al., *B-Cache*, sections IV.A and IV.B, figure 7.

use std::time::{Duration, Instant};

use thalweg_binding::Messages;
use thalweg_control::proto::p4::config::v1::P4Info;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::stream_message_request::Update as Request;
use thalweg_control::proto::p4::v1::stream_message_response::Update as Response;
use thalweg_control::{Catalog, Client, ClientError, Code, Failure, Problem};
use thalweg_p4::behavior::transform::{Keeper, KeeperCounts, changed_by, transform};
use thalweg_p4::commands::Command;
use thalweg_p4::{LoadError, Program};

use crate::cache_table::{CacheTable, report_numbers};
use crate::p4info::with_cache;

/// How the switch sends lists of reports: their maximum size and its time-outs.
const LIST: p4::digest_entry::Config = p4::digest_entry::Config {
    max_timeout_ns: 1_000_000,
    max_list_size: 64,
    ack_timeout_ns: 1_000_000_000,
};

/// Why a cache can no longer be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// No cache can be put in front of the program.
    #[error(transparent)]
    Program(#[from] LoadError),
    /// The P4Info belongs to another program.
    #[error("{0}")]
    Info(Problem),
    /// The connection ended, or the switch refused the keeper's updates.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A command failed, with its line; nothing of its batch was done.
    #[error("line {line}: {}", problem.message)]
    Command {
        /// The line, from 1.
        line: usize,
        /// Why it failed.
        problem: Problem,
    },
}

/// A controller that keeps the cache of one switch.
#[derive(Debug)]
pub struct Keeping<'p> {
    client: Client,
    program: &'p Program,
    messages: Messages<'p>,
    keeper: Keeper,
    table: CacheTable,
}

impl<'p> Keeping<'p> {
    /// Gives a switch the program with a cache of `entries` behaviours in front, and requests
    /// reports.
    ///
    /// `text`, `program`, `info` and `catalog` are of the original program.
    ///
    /// # Errors
    /// Fails if no cache can be put in front of the program, or if the switch refuses it.
    pub fn start(
        mut client: Client,
        text: &str,
        program: &'p Program,
        (info, catalog): (&P4Info, &'p Catalog),
        (entries, threshold): (u32, u16),
    ) -> Result<Keeping<'p>, KeepError> {
        let messages = Messages::new(catalog, program).map_err(KeepError::Info)?;
        let made = transform(text, entries)?;
        let info = with_cache(info, &made.plan);
        let table = CacheTable::find(&info, &made.plan);
        let strange = || Problem::invalid("P4Info has not what the cache needs");
        let table = table.ok_or_else(strange).map_err(KeepError::Info)?;
        client.set_pipeline(info, made.json.to_string())?;
        client.write(table.start(threshold, LIST))?;
        Ok(Keeping {
            client,
            program,
            messages,
            keeper: Keeper::new(made.plan),
            table,
        })
    }

    /// Number of installed behaviours.
    pub fn len(&self) -> usize {
        self.keeper.len()
    }

    /// Whether no behaviour is installed.
    pub fn is_empty(&self) -> bool {
        self.keeper.is_empty()
    }

    /// Counts of reports.
    pub fn counts(&self) -> KeeperCounts {
        self.keeper.counts()
    }

    /// Does all commands or none, within the barrier.
    ///
    /// # Errors
    /// Fails if P4Runtime has no message for a command, or if the switch refuses it. After any
    /// error other than [`KeepError::Command`] the controller is unusable.
    pub fn change(&mut self, commands: &[Command]) -> Result<(), KeepError> {
        let changed = self.try_change(commands);
        match changed {
            Ok(()) => self.messages.keep(),
            Err(_) => self.messages.take_back(),
        }
        changed
    }

    fn try_change(&mut self, commands: &[Command]) -> Result<(), KeepError> {
        let mut updates = Vec::with_capacity(commands.len());
        for command in commands {
            let message = self.messages.message(&command.update);
            let line = command.line;
            updates.push(message.map_err(|problem| KeepError::Command { line, problem })?);
        }
        let changed = commands.iter();
        let changed: Vec<_> = changed
            .flat_map(|command| changed_by(self.program, &command.update))
            .collect();
        let operations = self.keeper.begin_change(&changed);
        self.client.write(self.table.updates(operations))?;
        let written = self.client.write(updates);
        // Invariant 1: the epoch changes whether or not the change was done.
        let epoch = self.table.epoch(self.keeper.end_change());
        self.client.write(vec![epoch])?;
        written.map_err(|error| by_line(error, commands))
    }

    /// Installs reported behaviours. Waits until it has handled reports, or for `patience`.
    /// Returns how many were installed.
    ///
    /// # Errors
    /// Fails if the connection ended, or if the switch refuses an entry of the cache.
    pub fn handle_reports(&mut self, patience: Duration) -> Result<u64, KeepError> {
        let before = self.keeper.counts();
        let end = Instant::now() + patience;
        while self.keeper.counts().reports == before.reports {
            let rest = end.saturating_duration_since(Instant::now());
            let Some(message) = self.client.poll_message(rest)? else {
                break;
            };
            // Ignores packets and the program's own digests.
            if let Response::Digest(list) = message
                && list.digest_id == self.table.digest
            {
                self.handle_list(&list)?;
            }
        }
        Ok(self.keeper.counts().installed - before.installed)
    }

    fn handle_list(&mut self, list: &p4::DigestList) -> Result<(), KeepError> {
        for report in &list.data {
            // A report that is no tuple counts as malformed: it is handled as one without
            // numbers.
            let numbers = report_numbers(report).unwrap_or_default();
            let operations = self.keeper.handle_report(&numbers);
            self.client.write(self.table.updates(operations))?;
        }
        self.client.send(Request::DigestAck(p4::DigestListAck {
            digest_id: list.digest_id,
            list_id: list.list_id,
        }))?;
        Ok(())
    }
}

/// The command that was refused for its own reason, not because another was.
fn by_line(error: ClientError, commands: &[Command]) -> KeepError {
    let ClientError::Refused(Failure::Parts(verdicts)) = error else {
        return error.into();
    };
    let found = verdicts
        .iter()
        .zip(commands)
        .find_map(|(verdict, command)| {
            let problem = verdict.as_ref().err()?;
            (problem.code != Code::Aborted).then(|| (command.line, problem.clone()))
        });
    match found {
        Some((line, problem)) => KeepError::Command { line, problem },
        None => ClientError::Refused(Failure::Parts(verdicts)).into(),
    }
}
