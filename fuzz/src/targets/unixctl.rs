//! Bytes of a hostile client of the control socket, and the log that it changes.
//!
//! The first byte is the size of the pieces in which the rest comes.
//!
//! 1. No bytes make a connection or the log panic.
//! 2. Answers do not depend on the pieces, and every answer can be read.
//! 3. No pattern makes a line longer than a constant times the pattern's length.

use std::time::Duration;

use thalweg_ovsdb::jsonrpc::{JsonSplitter, RpcMessage};
use thalweg_unixctl::{ControlCommands, ControlConnection};
use thalweg_vswitchd::vlog::{
    FIELD_MAX, LogDestination, LogIdentity, LogLevel, LogMoment, LogRecord, LogSettings,
    VLOG_COMMANDS,
};

/// Runs one input.
pub fn run(input: &[u8]) {
    let [size, stream @ ..] = input else {
        return;
    };
    let answers = hear(stream, stream.len().max(1));
    assert_eq!(hear(stream, usize::from(*size) + 1), answers);
    let mut splitter = JsonSplitter::default();
    splitter.push(&answers);
    while let Some(answer) = splitter.next().expect("an answer is JSON") {
        match RpcMessage::parse(answer).expect("an answer is a message") {
            RpcMessage::Reply { result, .. } => assert!(result.is_string()),
            RpcMessage::Error { error, .. } => assert!(error.is_string()),
            other => panic!("{other:?} is no answer"),
        }
    }
}

/// All bytes that a client is sent.
fn hear(stream: &[u8], piece: usize) -> Vec<u8> {
    let mut commands = ControlCommands::new("version");
    commands.add(&VLOG_COMMANDS);
    let mut log = LogSettings::new(LogIdentity::default(), ["vconn", "unixctl"]);
    let mut connection = ControlConnection::default();
    let mut answers = Vec::new();
    for bytes in stream.chunks(piece) {
        connection.receive(bytes, Duration::ZERO);
        loop {
            let request = connection.next(&commands);
            if let Some(request) = &request {
                let reply = log.handle(request).unwrap_or_else(|| Ok(String::new()));
                connection.reply(reply);
                for argument in &request.arguments {
                    check_lines(&log, argument.len());
                }
            }
            let output = connection.take_output();
            answers.extend(output.iter().flatten());
            if request.is_none() && output.is_none() {
                break;
            }
        }
    }
    answers
}

/// Makes a line for each destination, whose patterns are at most `length` bytes or the default.
fn check_lines(log: &LogSettings, length: usize) {
    let record = LogRecord {
        module: log.module("vconn").expect("it is there"),
        level: LogLevel::Warning,
        thread: "handler",
        text: "a message\n",
    };
    for to in LogDestination::ALL {
        let line = log.line(to, &record, &LogMoment::default());
        assert!(line.len() <= (length + 100) * FIELD_MAX);
    }
}
