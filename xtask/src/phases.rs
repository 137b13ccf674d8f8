//! Runs timed phases, none skipped after a failure, and prints a final table.

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

impl Phase {
    /// Runs a phase; an error or `false` is a failure, and is printed at once.
    fn run(name: &str, work: impl FnOnce() -> anyhow::Result<bool>) -> Self {
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
        Self {
            name: name.to_owned(),
            duration: start.elapsed(),
            failure,
        }
    }
}

impl Phases {
    /// Runs one phase.
    pub(crate) fn run(&mut self, name: &str, work: impl FnOnce() -> anyhow::Result<bool>) {
        self.done.push(Phase::run(name, work));
    }

    /// Runs a phase that mostly waits, on a thread of its own, while `others` runs more phases.
    pub(crate) fn run_beside(
        &mut self,
        name: &str,
        work: impl FnOnce() -> anyhow::Result<bool> + Send,
        others: impl FnOnce(&mut Self),
    ) {
        let phase = std::thread::scope(|scope| {
            let beside = scope.spawn(|| Phase::run(name, work));
            others(self);
            beside.join()
        });
        match phase {
            Ok(phase) => self.done.push(phase),
            Err(panic) => std::panic::resume_unwind(panic),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_phases_run_and_one_failure_fails_the_whole() {
        let mut phases = Phases::default();
        phases.run_beside(
            "waits",
            || Ok(true),
            |phases| phases.run("works", || Ok(true)),
        );
        let names: Vec<&str> = phases.done.iter().map(|phase| &phase.name[..]).collect();
        assert_eq!(names, ["works", "waits"]);
        assert!(phases.done.iter().all(|phase| phase.failure.is_none()));
        phases.run_beside("fails", || anyhow::bail!("no"), |_| {});
        phases.run("works", || Ok(true));
        assert_eq!(phases.done[2].failure.as_deref(), Some("no"));
        assert!(!phases.finish());
    }
}
