//! The least daemon: it answers commands about itself, and does nothing else.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;

use thalweg_unixctl::{ControlCommand, ControlCommands, LoopWaker};
use thalweg_vswitchd::options::{DaemonOptions, VERSION_TEXT};
use thalweg_vswitchd::process::{Start, start};
use thalweg_vswitchd::vlog::{LogLevel, VLOG_COMMANDS, modules};

/// A name of a database for a daemon that fails before it is ready.
pub(crate) const FAILS: &str = "fails";
/// A name of a database for a daemon that crashes before it is ready.
pub(crate) const CRASHES: &str = "crashes";
/// A name of a database for a daemon that is ready when the command `ready` says so.
pub(crate) const WAITS: &str = "waits";

/// Runs it, with the arguments of this process.
pub(crate) fn run() -> ExitCode {
    let options = match DaemonOptions::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(ended) => return ended.report(),
    };
    let mut commands = ControlCommands::new(VERSION_TEXT);
    commands.add(&VLOG_COMMANDS);
    commands.add(&[
        ControlCommand::new("exit", "[--cleanup]", 0, 1),
        ControlCommand::new("log", "text", 1, 1),
        ControlCommand::new("ready", "", 0, 0),
        ControlCommand::new("stall", "", 0, 0),
    ]);
    let (wake, woken) = channel();
    // The main loop outlives the threads that wake it, but for the last moment.
    let waker: LoopWaker = Arc::new(move || wake.send(()).unwrap_or_default());
    let mut process = match start(&options, commands, waker) {
        Start::Daemon(process) => process,
        Start::Ended(status) => return status,
    };
    match options.database().as_str() {
        FAILS => {
            eprintln!("it fails");
            return ExitCode::from(3);
        }
        CRASHES => std::process::abort(),
        _ => (),
    }
    let log = process.log.clone();
    let mut must_exit = false;
    let mut is_ready = options.database() != WAITS;
    while !must_exit && !process.should_exit() {
        if is_ready {
            process.ready();
        }
        woken.recv().expect("the process has the waker");
        while let Some(command) = process.control.next_command() {
            let request = &command.request;
            let reply = match request.command.as_str() {
                "exit" => {
                    must_exit = true;
                    Ok(String::new())
                }
                "log" => {
                    let text = || request.arguments[0].clone();
                    log.write(modules::VSWITCHD, LogLevel::Info, text);
                    Ok(String::new())
                }
                "ready" => {
                    is_ready = true;
                    Ok(String::new())
                }
                "stall" => loop {
                    std::thread::park();
                },
                _ => log.handle(request).expect("there are no others"),
            };
            command.reply(reply);
        }
    }
    process.end()
}
