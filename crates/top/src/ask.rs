//! Questions to the switch, by its control socket.
//!
//! Each question has a connection of its own, so a switch that was away is found again by the
//! next one.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use thalweg_unixctl::{ControlClient, ControlClientError, target_path};

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most entries of an answer.
const ENTRIES: usize = 500;

/// What the switch is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    /// The counts.
    Live,
    /// The busy entries that a filter takes.
    Talkers(Option<String>),
    /// Why the entry of a flow is as it is.
    Explain(String),
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AskError {
    /// The switch refused the question.
    Refused(String),
    /// There is no switch.
    Lost(String),
}

/// A question with its answer.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) question: Question,
    pub(crate) answer: Result<String, AskError>,
    /// How long it took.
    pub(crate) took: Duration,
}

/// Has questions answered by a switch.
#[derive(Debug)]
pub(crate) struct Switchboard {
    target: Option<String>,
}

impl Switchboard {
    pub(crate) fn new(target: Option<String>) -> Switchboard {
        Switchboard { target }
    }

    /// What the switch is called until it says more.
    pub(crate) fn name(&self) -> String {
        let name = self.target.as_deref().unwrap_or("ovs-vswitchd");
        let name = name.rsplit('/').next().unwrap_or(name);
        name.strip_suffix(".ctl").unwrap_or(name).to_owned()
    }

    /// Asks the switch, and waits for its answer.
    pub(crate) fn ask(&self, question: Question) -> Answered {
        let start = Instant::now();
        let (command, arguments) = match &question {
            Question::Live => ("thalweg/live", Vec::new()),
            Question::Talkers(filter) => {
                let filter = filter.iter().map(|filter| format!("filter={filter}"));
                let limit = format!("limit={ENTRIES}");
                ("thalweg/talkers", filter.chain([limit]).collect())
            }
            Question::Explain(flow) => ("thalweg/explain", vec![flow.clone()]),
        };
        let answer = self.call(command, &arguments, start + PATIENCE);
        let answer = answer.map_err(|error| match error {
            ControlClientError::Refused(text) => AskError::Refused(text),
            other => AskError::Lost(other.to_string()),
        });
        Answered {
            question,
            answer,
            took: start.elapsed(),
        }
    }

    fn call(
        &self,
        command: &str,
        arguments: &[String],
        deadline: Instant,
    ) -> Result<String, ControlClientError> {
        let path = target_path(self.target.as_deref())?;
        ControlClient::connect(&path, Some(deadline))?.call(command, arguments)
    }

    /// Answers questions on a thread of its own, which ends with the sender.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start(self) -> Result<(Sender<Question>, Receiver<Answered>)> {
        let (questions, asked) = channel();
        let (answers, answered) = channel();
        let thread = std::thread::Builder::new().name("asker".to_owned());
        let work = move || {
            for question in asked {
                if answers.send(self.ask(question)).is_err() {
                    return;
                }
            }
        };
        thread.spawn(work).context("cannot start a thread")?;
        Ok((questions, answered))
    }
}
