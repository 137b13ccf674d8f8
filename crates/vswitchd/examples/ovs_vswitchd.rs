//! The daemon alone, without the other commands of the program.

use std::process::ExitCode;

fn main() -> ExitCode {
    thalweg_vswitchd::run(std::env::args_os().skip(1))
}
