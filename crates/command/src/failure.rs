//! Reports the error of a command and chooses the exit status.

use std::fmt::Display;
use std::io::ErrorKind;
use std::process::ExitCode;

use crate::console::warn;

/// Bad usage or input, which the user can correct.
#[derive(Debug)]
struct BadInput(String);

impl Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// An error that ends the program with status 2. `message` names the fault and how to correct it.
pub fn bad_input(message: impl Display) -> anyhow::Error {
    anyhow::Error::new(BadInput(message.to_string()))
}

/// Prints the error. The status is 2 for bad input, 1 for other failures, and 0 for a closed
/// pipe.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    warn(&text_of(error));
    let is_bad_input = error.downcast_ref::<BadInput>().is_some();
    ExitCode::from(if is_bad_input { 2 } else { 1 })
}

/// The error and its causes, without repetition: many messages already include their cause.
pub fn text_of(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
    }
    text
}

/// Whether the reader of our output closed the pipe.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_stream = cause.downcast_ref::<std::io::Error>();
        let of_json = cause.downcast_ref::<serde_json::Error>();
        let kind = of_stream.map(std::io::Error::kind);
        kind.or(of_json.and_then(serde_json::Error::io_error_kind)) == Some(ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn bad_input_is_known_through_its_context() {
        let error = Err::<(), _>(bad_input("no such table")).context("rules.txt");
        let error = error.expect_err("it is one");
        assert_eq!(format!("{error:#}"), "rules.txt: no such table");
        assert_eq!(report(&error), ExitCode::from(2));
        assert_eq!(report(&anyhow::anyhow!("other")), ExitCode::from(1));
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::from(ErrorKind::NotFound);
        let error = Err::<(), _>(cause()).context("rules.txt").expect_err("one");
        assert_eq!(text_of(&error), format!("rules.txt: {}", cause()));
        let told = format!("rules.txt: {}; check the path", cause());
        let error = Err::<(), _>(cause()).context(told.clone());
        assert_eq!(text_of(&error.expect_err("one")), told);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let error = std::io::Error::from(ErrorKind::BrokenPipe);
        assert_eq!(report(&anyhow::Error::new(error)), ExitCode::SUCCESS);
        // The same for JSON output.
        struct Closed;
        impl std::io::Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let error = serde_json::to_writer(Closed, &[1, 2]).expect_err("nobody reads it");
        assert_eq!(report(&anyhow::Error::new(error)), ExitCode::SUCCESS);
    }
}
