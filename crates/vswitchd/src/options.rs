//! The command line of ovs-vswitchd 3.1, and the directories that the environment names.
//!
//! [`DaemonOptions::parse`] takes the arguments after the program's name and gives options that
//! are right as far as this crate can know: specifications of the log are tried out, numbers
//! are numbers. A fault is one line, as Open vSwitch's programs say it.
//!
//! Where it departs from clap's habits, because scripts rely on getopt's:
//! 1. `-vSPEC` has its value attached, and `-v` alone means everything.
//! 2. A long option may be shortened as long as it is the only one, and the last of several wins.
//! 3. A wrong command line ends with status 1.
//!
//! Where it departs from Open vSwitch: the log's host must be an IP address, with no name to look
//! up; `--dummy-numa` must be numbers; `--version` has a line about Thalweg.

mod syslog_method;

pub use syslog_method::SyslogMethod;
pub(crate) use syslog_method::udp_address;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::vlog::{LogIdentity, LogSettings, modules};

/// The name under which the daemon's files and messages go.
pub const PROGRAM: &str = "ovs-vswitchd";

/// The version of Open vSwitch whose answers the daemon gives.
pub const OVS_VERSION: &str = "3.1.0";

/// What `--version` and the control socket's `version` say. Scripts take the last word of the
/// line that names Open vSwitch, or of the first.
pub const VERSION_TEXT: &str = concat!(
    "ovs-vswitchd (Open vSwitch) 3.1.0\n",
    "Thalweg ",
    env!("CARGO_PKG_VERSION"),
    ", in the place of the version above"
);

/// What `--version` says after the program's name.
const VERSION: &str = match VERSION_TEXT.split_at_checked(PROGRAM.len() + 1) {
    Some((_, version)) => version,
    None => VERSION_TEXT,
};

/// Which devices and datapaths `--enable-dummy` replaces by simulated ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DummyLevel {
    /// None: they only exist beside the others.
    Beside,
    /// Those of the type `system`.
    System,
    /// Those of all types.
    All,
}

impl DummyLevel {
    fn parse(text: &str) -> Result<DummyLevel, String> {
        match text {
            "" => Ok(DummyLevel::Beside),
            "system" => Ok(DummyLevel::System),
            "override" => Ok(DummyLevel::All),
            _ => Err(format!("{text}: unknown dummy level")),
        }
    }
}

/// Where files are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directories {
    /// Sockets and pidfiles.
    pub run: PathBuf,
    /// Log files.
    pub log: PathBuf,
    /// Databases.
    pub database: PathBuf,
    /// Configuration.
    pub configuration: PathBuf,
    /// Installed files, such as schemas.
    pub data: PathBuf,
}

impl Directories {
    /// A socket or pidfile: a name below the directory of those, unless it is absolute.
    pub fn in_run(&self, name: &Path) -> PathBuf {
        let path = self.run.join(name);
        // What a relative directory means must not depend on a later change of directory.
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Reads `OVS_RUNDIR` and the others; Debian's directories where they are unset or empty.
    pub fn from_environment() -> Directories {
        Directories::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Directories {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let directory =
            |name: &str, default: &str| set(name).map_or_else(|| default.into(), PathBuf::from);
        let below_configuration =
            || set("OVS_SYSCONFDIR").map(|folder| PathBuf::from(folder).join("openvswitch"));
        Directories {
            run: directory("OVS_RUNDIR", "/var/run/openvswitch"),
            log: directory("OVS_LOGDIR", "/var/log/openvswitch"),
            database: set("OVS_DBDIR")
                .map(PathBuf::from)
                .or_else(below_configuration)
                .unwrap_or_else(|| "/etc/openvswitch".into()),
            configuration: directory("OVS_SYSCONFDIR", "/etc"),
            data: directory("OVS_PKGDATADIR", "/usr/share/openvswitch"),
        }
    }
}

/// The daemon of a virtual switch, in the place of Open vSwitch's.
///
/// It takes its configuration from the Open vSwitch database that DATABASE serves.
#[derive(Clone, Debug, Parser)]
#[command(name = PROGRAM, version = VERSION, infer_long_args = true, args_override_self = true)]
pub struct DaemonOptions {
    /// The database's server, such as unix:FILE, tcp:HOST:PORT or ssl:HOST:PORT
    /// [default: unix:$OVS_RUNDIR/db.sock]
    #[arg(value_name = "DATABASE")]
    pub database: Option<String>,

    /// Simulated devices and datapaths; they replace those of type `system`, or all
    #[arg(long, value_name = "system|override", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", value_parser = DummyLevel::parse)]
    pub enable_dummy: Option<DummyLevel>,
    /// No devices and datapaths of type `system`
    #[arg(long)]
    pub disable_system: bool,
    /// Routes only from `ovs-appctl ovs/route/add`
    #[arg(long)]
    pub disable_system_route: bool,
    /// The NUMA node of each simulated processor core, such as 0,0,1,1
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    pub dummy_numa: Vec<u32>,

    /// Run in the background, and return when the daemon works
    #[arg(long)]
    pub detach: bool,
    /// Start the daemon again when an error signal ends it
    #[arg(long)]
    pub monitor: bool,
    /// Run as this user
    #[arg(long, value_name = "USER[:GROUP]")]
    pub user: Option<String>,
    /// With --detach, stay in the present directory instead of /
    #[arg(long)]
    pub no_chdir: bool,
    /// Allow sockets outside the directory of sockets
    #[arg(long)]
    pub no_self_confinement: bool,
    /// Write the process's number into FILE [default: $OVS_RUNDIR/ovs-vswitchd.pid]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub pidfile: Option<Option<PathBuf>>,
    /// With --pidfile, start even if the daemon runs
    #[arg(long)]
    pub overwrite_pidfile: bool,
    /// Lock all memory
    #[arg(long)]
    pub mlockall: bool,

    /// Set levels of the log; without SPEC, log everything. May be attached: -vSPEC
    #[arg(short, long, value_name = "SPEC", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", action = clap::ArgAction::Append)]
    pub verbose: Vec<String>,
    /// Log to FILE [default: $OVS_LOGDIR/ovs-vswitchd.log]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub log_file: Option<Option<PathBuf>>,
    /// How to reach the system's log [default: $OVS_SYSLOG_METHOD, or libc]
    #[arg(long, value_name = "null|libc|unix:FILE|udp:IP:PORT")]
    pub syslog_method: Option<String>,
    /// Send messages for the system's log to this host also (deprecated)
    #[arg(long, value_name = "IP:PORT")]
    pub syslog_target: Option<String>,

    /// The control socket, or `none` [default: $OVS_RUNDIR/ovs-vswitchd.PID.ctl]
    #[arg(long, value_name = "SOCKET")]
    pub unixctl: Option<PathBuf>,

    /// The private key for ssl: connections
    #[arg(short, long, value_name = "FILE")]
    pub private_key: Option<PathBuf>,
    /// The certificate of the private key
    #[arg(short, long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// The certificate of the peers' authority
    #[arg(short = 'C', long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,
    /// As --ca-cert, but FILE is written at the first connection if it does not exist
    #[arg(long, value_name = "FILE")]
    pub bootstrap_ca_cert: Option<PathBuf>,
    /// The certificates to send to peers
    #[arg(long, value_name = "FILE")]
    pub peer_ca_cert: Option<PathBuf>,
    /// Protocols of ssl: connections
    #[arg(long, value_name = "PROTOCOLS")]
    pub ssl_protocols: Option<String>,
    /// Ciphers of ssl: connections
    #[arg(long, value_name = "CIPHERS")]
    pub ssl_ciphers: Option<String>,

    /// Not supported: DPDK is configured in the database
    #[arg(long, hide = true, num_args = 0..=1)]
    dpdk: Option<Option<String>>,

    /// Where files are.
    #[arg(skip = Directories::from_environment())]
    pub directories: Directories,
    /// The method for the system's log, from the command line or the environment.
    #[arg(skip)]
    pub(crate) syslog: SyslogMethod,
}

/// Why there are no options: the program ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoOptions {
    /// The user asked for this text.
    Text(String),
    /// The command line is wrong.
    Wrong(String),
}

impl NoOptions {
    /// Prints the text or the error, and gives the program's status.
    pub fn report(&self) -> ExitCode {
        match self {
            NoOptions::Text(text) => {
                // A reader that goes away has read enough.
                let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
                ExitCode::SUCCESS
            }
            NoOptions::Wrong(error) => {
                eprintln!("{PROGRAM}: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

impl DaemonOptions {
    /// Reads arguments, without the program's name, and the environment.
    ///
    /// ```
    /// use thalweg_vswitchd::options::DaemonOptions;
    ///
    /// let arguments = ["--detach", "--pidfile", "-vvconn:dbg"].map(Into::into);
    /// let options = DaemonOptions::parse(arguments).unwrap();
    /// assert!(options.detach && options.pidfile_path().is_some());
    /// assert_eq!(options.verbose, ["vconn:dbg"]);
    /// ```
    ///
    /// # Errors
    ///
    /// The user asked for a text only, or the command line is wrong.
    pub fn parse(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<DaemonOptions, NoOptions> {
        let method = std::env::var("OVS_SYSLOG_METHOD").unwrap_or_default();
        DaemonOptions::parse_with(arguments, Directories::from_environment(), &method)
    }

    fn parse_with(
        arguments: impl IntoIterator<Item = OsString>,
        directories: Directories,
        default_method: &str,
    ) -> Result<DaemonOptions, NoOptions> {
        let line = [PROGRAM.into()].into_iter().chain(detached(arguments));
        let mut options = DaemonOptions::try_parse_from(line).map_err(NoOptions::from_clap)?;
        options.directories = directories;
        options.check(default_method).map_err(NoOptions::Wrong)?;
        Ok(options)
    }

    fn check(&mut self, default_method: &str) -> Result<(), String> {
        if self.dpdk.is_some() {
            return Err("Using --dpdk to configure DPDK is not supported.".to_owned());
        }
        self.log_settings(LogIdentity::default())?;
        let method = self.syslog_method.as_deref().unwrap_or(default_method);
        self.syslog = SyslogMethod::parse(method)?;
        Ok(())
    }

    /// Levels and patterns as the command line sets them.
    ///
    /// # Errors
    ///
    /// A specification is wrong; not after [`DaemonOptions::parse`].
    pub(crate) fn log_settings(&self, identity: LogIdentity) -> Result<LogSettings, String> {
        let mut settings = LogSettings::new(identity, modules::NAMES);
        for spec in &self.verbose {
            let wrong = |error| format!("processing \"{spec}\": {error}");
            settings.set(spec).map_err(wrong)?;
        }
        Ok(settings)
    }

    /// The database's server. A relative name in `unix:` is one below the directory of sockets.
    pub fn database(&self) -> String {
        let default = || format!("unix:{}/db.sock", self.directories.run.display());
        self.database.clone().unwrap_or_else(default)
    }

    /// The pidfile, if there must be one.
    pub fn pidfile_path(&self) -> Option<PathBuf> {
        let name = self.pidfile.as_ref()?;
        let name = name
            .clone()
            .unwrap_or_else(|| format!("{PROGRAM}.pid").into());
        Some(self.directories.in_run(&name))
    }

    /// The log file, if there must be one.
    pub fn log_path(&self) -> Option<PathBuf> {
        let default = || self.directories.log.join(format!("{PROGRAM}.log"));
        Some(self.log_file.as_ref()?.clone().unwrap_or_else(default))
    }

    /// The control socket of the process with this number, unless there must be none.
    pub fn control_path(&self, pid: u32) -> Option<PathBuf> {
        let default = || format!("{PROGRAM}.{pid}.ctl").into();
        let name = self.unixctl.clone().unwrap_or_else(default);
        (name != Path::new("none")).then(|| self.directories.in_run(&name))
    }
}

impl NoOptions {
    fn from_clap(error: clap::Error) -> NoOptions {
        let text = error.to_string();
        let argument = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(argument)) => argument.as_str(),
            _ => "",
        };
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => NoOptions::Text(text),
            ErrorKind::UnknownArgument if argument.starts_with("--") => {
                NoOptions::Wrong(format!("unrecognized option '{argument}'"))
            }
            ErrorKind::UnknownArgument if argument.starts_with('-') => {
                NoOptions::Wrong(format!("invalid option -- '{}'", &argument[1..]))
            }
            ErrorKind::UnknownArgument => NoOptions::Wrong(
                "at most one non-option argument accepted; use --help for usage".to_owned(),
            ),
            _ => {
                let line = text.lines().next().unwrap_or_default();
                NoOptions::Wrong(line.trim_start_matches("error: ").to_owned())
            }
        }
    }
}

/// The arguments with `-vSPEC` written as `--verbose=SPEC`.
fn detached(arguments: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut is_option = true;
    arguments.into_iter().map(move |argument| {
        is_option &= argument != "--";
        match argument.to_str().and_then(|text| text.strip_prefix("-v")) {
            Some("") if is_option => "--verbose".into(),
            Some(spec) if is_option => format!("--verbose={spec}").into(),
            _ => argument,
        }
    })
}

#[cfg(test)]
mod tests;
