//! Runs timed phases one after the other, none skipped after a failure, and prints a final
//! table.

use std::time::{Duration, Instant};

/// The phases run so far.
#[derive(Default)]
pub(crate) struct Phases {
    done: Vec<Phase>,
}

struct Phase {
    name: String,
    duration: Duration,
    failure: Option<String>,
}

impl Phases {
    /// Runs one phase; an error or `false` is a failure, and is printed at once.
    pub(crate) fn run(&mut self, name: &str, work: impl FnOnce() -> anyhow::Result<bool>) {
        eprintln!("==> {name}");
        let start = Instant::now();
        let failure = match work() {
            Ok(true) => None,
            Ok(false) => Some("failed, see above".to_owned()),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(failure) = &failure {
            eprintln!("==> {name}: {failure}");
        }
        self.done.push(Phase {
            name: name.to_owned(),
            duration: start.elapsed(),
            failure,
        });
    }

    /// Prints the table; returns whether all phases succeeded.
    pub(crate) fn finish(self) -> bool {
        eprintln!();
        for phase in &self.done {
            let seconds = phase.duration.as_secs_f64();
            let outcome = phase.failure.as_deref().map_or("ok", |failure| failure);
            eprintln!("{:>8.1} s  {}: {outcome}", seconds, phase.name);
        }
        self.done.iter().all(|phase| phase.failure.is_none())
    }
}
