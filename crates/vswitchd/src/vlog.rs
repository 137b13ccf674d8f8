//! The log of a daemon: who logs what where, and how a line looks.
//!
//! [`LogSettings`] has a level for each module and destination, a pattern for each destination,
//! and carries out the commands `vlog/*` and the option `--verbose`. [`LogSettings::line`]
//! makes a line. [`LogRateLimit`] lets only so much of a kind of message through.
//!
//! 1. A message is logged to a destination if the module's level there is its level or lower,
//!    with the levels from `OFF` to `DBG`; the file only if there is one.
//! 2. The commands answer with the texts of Open vSwitch 3.1.
//!
//! Where it departs from Open vSwitch: a field in a pattern is padded to at most
//! [`FIELD_MAX`] bytes, so that a pattern cannot take the memory; a pattern that ends within a
//! field or within braces is taken as if they were closed; in a time, `%Z` is an offset, and a
//! field with a width is left as it is.
//!
//! References: ovs-appctl(8), "LOGGING COMMANDS" and "PATTERN".

mod limit;
pub mod modules;
mod pattern;

use thalweg_unixctl::{ControlCommand, ControlRequest};

pub use limit::{LogRateLimit, RateVerdict};
pub use pattern::{FIELD_MAX, LogMoment, LogRecord};

/// How severe a message is, or which messages are logged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LogLevel {
    /// No message is; nothing is logged.
    Off,
    /// The daemon cannot go on.
    Emergency,
    /// An operation failed.
    Error,
    /// Something is wrong and does not stop anything.
    Warning,
    /// Something that happens now and then.
    Info,
    /// Everything.
    Debug,
}

impl LogLevel {
    const ALL: [LogLevel; 6] = [
        LogLevel::Off,
        LogLevel::Emergency,
        LogLevel::Error,
        LogLevel::Warning,
        LogLevel::Info,
        LogLevel::Debug,
    ];

    /// Its name in lines, such as "WARN".
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "OFF",
            LogLevel::Emergency => "EMER",
            LogLevel::Error => "ERR",
            LogLevel::Warning => "WARN",
            LogLevel::Info => "INFO",
            LogLevel::Debug => "DBG",
        }
    }

    /// Its number in RFC 5424, section 6.2.1.
    pub fn severity(self) -> u8 {
        match self {
            LogLevel::Off | LogLevel::Emergency => 1,
            LogLevel::Error => 3,
            LogLevel::Warning => 4,
            LogLevel::Info => 5,
            LogLevel::Debug => 7,
        }
    }

    fn parse(name: &str) -> Option<LogLevel> {
        let mut all = LogLevel::ALL.into_iter();
        all.find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

/// Where lines go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogDestination {
    /// The system's log.
    Syslog,
    /// Standard error.
    Console,
    /// The daemon's file.
    File,
}

impl LogDestination {
    /// All of them.
    pub const ALL: [LogDestination; 3] = [
        LogDestination::Syslog,
        LogDestination::Console,
        LogDestination::File,
    ];

    fn name(self) -> &'static str {
        match self {
            LogDestination::Syslog => "SYSLOG",
            LogDestination::Console => "CONSOLE",
            LogDestination::File => "FILE",
        }
    }

    fn parse(name: &str) -> Option<LogDestination> {
        let mut all = LogDestination::ALL.into_iter();
        all.find(|destination| destination.name().eq_ignore_ascii_case(name))
    }

    fn default_pattern(self) -> &'static str {
        match self {
            LogDestination::Syslog => "ovs|%05N|%c%T|%p|%m",
            LogDestination::Console => "%D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m",
            LogDestination::File => "%D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m",
        }
    }
}

/// Facilities of the system's log and their numbers (RFC 5424, section 6.2.1).
const FACILITIES: [(&str, u8); 23] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("clock", 9),
    ("ftp", 11),
    ("ntp", 12),
    ("audit", 13),
    ("alert", 14),
    ("clock2", 15),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// What separates the words of a specification.
const SEPARATORS: [char; 4] = [' ', ',', ':', '\t'];

/// The commands of the log. The owner carries out the last two, which are about its file.
pub const VLOG_COMMANDS: [ControlCommand; 7] = [
    ControlCommand::new(
        "vlog/set",
        "{spec | PATTERN:destination:pattern}",
        0,
        usize::MAX,
    ),
    ControlCommand::new("vlog/list", "", 0, 0),
    ControlCommand::new("vlog/list-pattern", "", 0, 0),
    ControlCommand::new("vlog/enable-rate-limit", "[module]...", 0, usize::MAX),
    ControlCommand::new("vlog/disable-rate-limit", "[module]...", 0, usize::MAX),
    ControlCommand::new("vlog/reopen", "", 0, 0),
    ControlCommand::new("vlog/close", "", 0, 0),
];

/// A module that logs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogModule(pub(crate) usize);

#[derive(Clone, Debug)]
struct ModuleState {
    name: String,
    levels: [LogLevel; 3],
    is_rate_limited: bool,
}

/// What a daemon is, for its lines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogIdentity {
    /// The program's name.
    pub program: String,
    /// The host's name.
    pub host: String,
    /// The process's number.
    pub pid: u32,
    /// What the system's log puts before a line, for `vlog/list-pattern`.
    pub syslog_prefix: String,
}

/// Levels, patterns and rate limits.
///
/// ```
/// use thalweg_vswitchd::vlog::{LogDestination, LogIdentity, LogLevel, LogSettings};
///
/// let mut log = LogSettings::new(LogIdentity::default(), ["bridge", "vconn"]);
/// let vconn = log.module("vconn").unwrap();
/// assert!(!log.is_logged(vconn, LogDestination::File, LogLevel::Debug));
/// log.set("vconn:file:dbg").unwrap();
/// assert!(log.is_logged(vconn, LogDestination::File, LogLevel::Debug));
/// assert_eq!(
///     log.set("vcon:dbg"),
///     Err("no destination, level, or module \"vcon\"".to_owned())
/// );
/// ```
#[derive(Clone, Debug)]
pub struct LogSettings {
    identity: LogIdentity,
    modules: Vec<ModuleState>,
    patterns: [String; 3],
    facility: Option<u8>,
}

impl LogSettings {
    /// Modules that log from `INFO` on to every destination.
    pub fn new<N: Into<String>>(
        identity: LogIdentity,
        modules: impl IntoIterator<Item = N>,
    ) -> LogSettings {
        let state = |name: N| ModuleState {
            name: name.into(),
            levels: [LogLevel::Info; 3],
            is_rate_limited: true,
        };
        LogSettings {
            identity,
            modules: modules.into_iter().map(state).collect(),
            patterns: LogDestination::ALL.map(|to| to.default_pattern().to_owned()),
            facility: None,
        }
    }

    /// A module by its name, in any case of letters.
    pub fn module(&self, name: &str) -> Option<LogModule> {
        let is_it = |module: &ModuleState| module.name.eq_ignore_ascii_case(name);
        self.modules.iter().position(is_it).map(LogModule)
    }

    /// Whether a message is logged to a destination.
    pub fn is_logged(&self, module: LogModule, to: LogDestination, level: LogLevel) -> bool {
        self.modules[module.0].levels[to as usize] >= level
    }

    /// The highest level of which a module's messages are logged anywhere.
    pub fn highest_level(&self, module: LogModule, has_file: bool) -> LogLevel {
        let [syslog, console, file] = self.modules[module.0].levels;
        let file = if has_file { file } else { LogLevel::Off };
        syslog.max(console).max(file)
    }

    /// All modules, in the order of their names' list.
    pub fn modules(&self) -> impl Iterator<Item = LogModule> + use<> {
        (0..self.modules.len()).map(LogModule)
    }

    /// Whether rate limits hold for a module.
    pub fn is_rate_limited(&self, module: LogModule) -> bool {
        self.modules[module.0].is_rate_limited
    }

    /// The facility of the system's log, if one was chosen.
    pub fn facility(&self) -> Option<u8> {
        self.facility
    }

    /// Sets the level of a module or all, at a destination or all.
    pub fn set_level(
        &mut self,
        module: Option<LogModule>,
        to: Option<LogDestination>,
        level: LogLevel,
    ) {
        for (index, state) in self.modules.iter_mut().enumerate() {
            if module.is_none_or(|module| module.0 == index) {
                for destination in LogDestination::ALL {
                    if to.is_none_or(|to| to == destination) {
                        state.levels[destination as usize] = level;
                    }
                }
            }
        }
    }

    /// Carries out a specification, as `vlog/set` and `--verbose` take it.
    ///
    /// # Errors
    ///
    /// The text that Open vSwitch answers with; nothing has changed.
    pub fn set(&mut self, spec: &str) -> Result<(), String> {
        let (first, rest) = next_word(spec);
        if first.eq_ignore_ascii_case("PATTERN") {
            let (word, pattern) = next_word(rest);
            let to = match LogDestination::parse(word) {
                _ if word.is_empty() => return Err("missing destination".to_owned()),
                _ if word.eq_ignore_ascii_case("ANY") => None,
                None => return Err(format!("unknown destination \"{word}\"")),
                to => to,
            };
            for destination in LogDestination::ALL {
                if to.is_none_or(|to| to == destination) {
                    pattern.clone_into(&mut self.patterns[destination as usize]);
                }
            }
            return Ok(());
        }
        if first.eq_ignore_ascii_case("FACILITY") {
            let mut known = FACILITIES.iter();
            let found = known.find(|(name, _)| name.eq_ignore_ascii_case(rest));
            let (_, number) = found.ok_or("invalid facility")?;
            self.facility = Some(*number);
            return Ok(());
        }
        let (mut module, mut to, mut level) = (None, None, None);
        for word in spec.split(SEPARATORS).filter(|word| !word.is_empty()) {
            if word.eq_ignore_ascii_case("ANY") {
                continue;
            }
            let destination = LogDestination::parse(word);
            let named = LogLevel::parse(word);
            if destination.is_some() {
                choose(&mut to, destination, "destinations")?;
            } else if named.is_some() {
                choose(&mut level, named, "levels")?;
            } else if let Some(found) = self.module(word) {
                choose(&mut module, Some(found), "modules")?;
            } else {
                return Err(format!("no destination, level, or module \"{word}\""));
            }
        }
        self.set_level(module, to, level.unwrap_or(LogLevel::Debug));
        Ok(())
    }

    /// The levels of all modules, as `vlog/list` answers.
    pub fn list(&self) -> String {
        let line = |module: &ModuleState| {
            let [syslog, console, file] = module.levels.map(LogLevel::name);
            let note = match module.is_rate_limited {
                true => "",
                false => "    (rate limiting disabled)",
            };
            let name = &module.name;
            format!("{name:<16}  {console:>4}       {syslog:>4}       {file:>4}{note}\n")
        };
        let mut lines: Vec<String> = self.modules.iter().map(line).collect();
        lines.sort();
        let head = "                 console    syslog    file\n";
        let rule = "                 -------    ------    ------\n";
        format!("{head}{rule}{}", lines.concat())
    }

    /// The patterns, as `vlog/list-pattern` answers.
    pub fn list_patterns(&self) -> String {
        let mut text = "         prefix                            format\n         \
                        ------                            ------\n"
            .to_owned();
        for destination in LogDestination::ALL {
            let prefix = match destination {
                LogDestination::Syslog => &*self.identity.syslog_prefix,
                _ => "none",
            };
            let (name, pattern) = (destination.name(), &self.patterns[destination as usize]);
            text += &format!("{name:<7}  {prefix:<32}  {pattern}\n");
        }
        text
    }

    fn limit_rates(&mut self, modules: &[String], is_limited: bool) -> Result<(), String> {
        if modules.is_empty() {
            return self.limit_rates(&["ANY".to_owned()], is_limited);
        }
        for name in modules {
            let module = self.module(name);
            if module.is_none() && !name.eq_ignore_ascii_case("ANY") {
                return Err("unknown module".to_owned());
            }
            for (index, state) in self.modules.iter_mut().enumerate() {
                if module.is_none_or(|module| module.0 == index) {
                    state.is_rate_limited = is_limited;
                }
            }
        }
        Ok(())
    }

    /// Carries out a command of the control socket; `None` if it is the owner's to do.
    pub fn handle(&mut self, request: &ControlRequest) -> Option<Result<String, String>> {
        let arguments = &request.arguments;
        let done = match request.command.as_str() {
            "vlog/list" => return Some(Ok(self.list())),
            "vlog/list-pattern" => return Some(Ok(self.list_patterns())),
            "vlog/set" if arguments.is_empty() => self.set(""),
            // Those before a wrong one take effect.
            "vlog/set" => arguments.iter().try_for_each(|spec| self.set(spec)),
            "vlog/enable-rate-limit" => self.limit_rates(arguments, true),
            "vlog/disable-rate-limit" => self.limit_rates(arguments, false),
            _ => return None,
        };
        Some(done.map(|()| String::new()))
    }

    /// The line of a message, without its end.
    pub fn line(&self, to: LogDestination, record: &LogRecord<'_>, moment: &LogMoment) -> String {
        self.line_by(&self.patterns[to as usize], record, moment)
    }

    /// The line of a message by a pattern of the caller's.
    pub fn line_by(&self, pattern: &str, record: &LogRecord<'_>, moment: &LogMoment) -> String {
        let module = &self.modules[record.module.0].name;
        pattern::format(
            pattern,
            &self.identity,
            self.facility,
            module,
            record,
            moment,
        )
    }
}

/// The first word of a text, and what follows the separator behind it.
fn next_word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(SEPARATORS);
    text.split_once(SEPARATORS).unwrap_or((text, ""))
}

fn choose<T>(chosen: &mut Option<T>, value: Option<T>, what: &str) -> Result<(), String> {
    match chosen.is_some() {
        true => Err(format!("cannot specify multiple {what}")),
        false => {
            *chosen = value;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
