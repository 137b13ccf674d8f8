//! Logs what happens at the control socket, in Open vSwitch's words.

use thalweg_unixctl::{ControlNote, ControlNotes};

use crate::log::{Log, LogLimit, os_text};
use crate::vlog::{LogLevel, modules};

static ACCEPT_LIMIT: LogLimit = LogLimit::new(5, 5);
static WRONG_LIMIT: LogLimit = LogLimit::new(5, 5);

impl ControlNotes for Log {
    fn note(&self, note: ControlNote<'_>) {
        let module = modules::UNIXCTL;
        let warn = |limit, text: &dyn Fn() -> String| {
            self.write_limited(limit, module, LogLevel::Warning, text);
        };
        match note {
            ControlNote::Received(request, id) => self.write(module, LogLevel::Debug, || {
                format!("received request {request}, id={id}")
            }),
            ControlNote::Replied(reply, id) => self.write(module, LogLevel::Debug, || {
                let (what, text) = match reply {
                    Ok(text) => ("success", text),
                    Err(text) => ("error", text),
                };
                format!("replying with {what}, id={id}: \"{text}\"")
            }),
            ControlNote::Refused => warn(&ACCEPT_LIMIT, &|| {
                "connection refused: all connections wait for answers".to_owned()
            }),
            ControlNote::NotAccepted(error) => warn(&ACCEPT_LIMIT, &|| {
                format!("accept failed: {}", os_text(error))
            }),
            ControlNote::Closed(reason) => {
                warn(&WRONG_LIMIT, &|| format!("connection closed: {reason}"))
            }
            ControlNote::Broken(error) => self.write(module, LogLevel::Error, || {
                let error = os_text(error);
                format!("the control socket cannot be served ({error})")
            }),
        }
    }
}
