//! Writes the log: to its file, to standard error, and to the system's log.
//!
//! A [`Log`] is a handle that every part of the daemon keeps. [`LogSettings`] decides which
//! messages are logged, and how a line looks.
//!
//! 1. A message that is logged nowhere costs one load of an atomic; its text is not made.
//! 2. A line is one write at the file's end, so that lines of threads do not mix.
//! 3. No destination that fails stops the daemon, or the other destinations.
//! 4. The file is closed and opened under its name by `vlog/reopen`, after which nothing more
//!    is written to the old one.
//!
//! References: ovs-appctl(8), "LOGGING COMMANDS"; ovs-vswitchd(8), "Logging Options".

mod control;
mod syslog;

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use thalweg_unixctl::ControlRequest;

use crate::log::syslog::Syslog;
use crate::options::{DaemonOptions, PROGRAM};
use crate::vlog::{
    LogDestination, LogIdentity, LogLevel, LogModule, LogMoment, LogRateLimit, LogRecord,
    LogSettings, RateVerdict, modules,
};

/// Permissions of a new log file, before the process's mask.
const FILE_MODE: u32 = 0o660;

/// Threads whose messages do not name them: those whose work Open vSwitch's main thread does.
const UNNAMED: [&str; 2] = ["main", "openflow"];

thread_local! {
    /// Messages that the thread has logged.
    static SEQUENCE: Cell<u32> = const { Cell::new(0) };
}

/// A limit for a kind of message, for a `static` beside the call.
#[derive(Debug)]
pub struct LogLimit(Mutex<LogRateLimit>);

impl LogLimit {
    /// A limit of messages per minute, of which some may come at once.
    pub const fn new(rate_per_minute: u32, burst: u32) -> LogLimit {
        LogLimit(Mutex::new(LogRateLimit::new(rate_per_minute, burst)))
    }
}

/// The daemon's log: a handle that is cheap to clone.
///
/// ```
/// use thalweg_vswitchd::log::Log;
/// use thalweg_vswitchd::options::DaemonOptions;
/// use thalweg_vswitchd::vlog::{LogLevel, modules};
///
/// let arguments = ["-vconsole:off", "--syslog-method=null"].map(Into::into);
/// let log = Log::open(&DaemonOptions::parse(arguments).unwrap());
/// log.write(modules::BRIDGE, LogLevel::Info, || "bridge br0: added".to_owned());
/// ```
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: RwLock<LogSettings>,
    /// The highest level of each module that is logged anywhere (invariant 1).
    highest: Vec<AtomicU8>,
    file: Mutex<LogFile>,
    syslog: Mutex<Syslog>,
    started: Instant,
}

/// The file, its name, and whether it is open.
#[derive(Debug, Default)]
struct LogFile {
    path: Option<PathBuf>,
    file: Option<File>,
}

impl Log {
    /// Opens the log that a command line asks for. A file that cannot be opened is a warning
    /// in the log.
    pub fn open(options: &DaemonOptions) -> Log {
        let name = rustix::system::uname();
        let identity = LogIdentity {
            program: PROGRAM.to_owned(),
            host: name.nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            syslog_prefix: options.syslog.prefix().to_owned(),
        };
        let settings = options.log_settings(identity);
        let settings = settings.expect("the options were parsed, which tries the levels");
        let syslog = Syslog::new(&options.syslog, options.syslog_target.as_deref());
        let log = Log(Arc::new(Shared {
            highest: settings.modules().map(|_| AtomicU8::new(0)).collect(),
            settings: RwLock::new(settings),
            file: Mutex::default(),
            syslog: Mutex::new(syslog),
            started: Instant::now(),
        }));
        log.update();
        if let Some(path) = options.log_path() {
            // The message about it is in the log.
            let _ = log.open_file(&path);
        }
        if options.syslog_target.is_some() {
            log.write(modules::VLOG, LogLevel::Warning, || {
                "--syslog-target flag is deprecated, use --syslog-method instead".to_owned()
            });
        }
        log
    }

    /// Whether a message would be logged anywhere.
    pub fn is_enabled(&self, module: LogModule, level: LogLevel) -> bool {
        self.0.highest[module.0].load(Ordering::Relaxed) >= level as u8
    }

    /// Logs a message.
    pub fn write(&self, module: LogModule, level: LogLevel, text: impl FnOnce() -> String) {
        if self.is_enabled(module, level) {
            self.write_text(module, level, &text());
        }
    }

    /// Logs a message, unless its kind comes too often.
    pub fn write_limited(
        &self,
        limit: &LogLimit,
        module: LogModule,
        level: LogLevel,
        text: impl FnOnce() -> String,
    ) {
        if !self.is_enabled(module, level) {
            return;
        }
        if self.with_settings(|settings| settings.is_rate_limited(module)) {
            match locked(&limit.0).check(self.0.started.elapsed()) {
                RateVerdict::Log => (),
                RateVerdict::LogAfter(dropped) => self.write_text(module, level, &dropped),
                RateVerdict::Drop => return,
            }
        }
        self.write_text(module, level, &text());
    }

    /// Logs why the program cannot go on, and prints it to standard error in any case.
    pub fn fatal(&self, module: LogModule, text: &str) {
        self.change(|settings| {
            let console = Some(LogDestination::Console);
            settings.set_level(Some(module), console, LogLevel::Off);
        });
        self.write(module, LogLevel::Emergency, || text.to_owned());
        eprintln!("{PROGRAM}: {text}");
    }

    /// Carries out a command `vlog/...`; `None` if it is another.
    pub fn handle(&self, request: &ControlRequest) -> Option<Result<String, String>> {
        match request.command.as_str() {
            "vlog/reopen" => Some(self.reopen().map(|()| String::new())),
            "vlog/close" => {
                locked(&self.0.file).file = None;
                self.update();
                Some(Ok(String::new()))
            }
            _ => self.change(|settings| settings.handle(request)),
        }
    }

    /// Closes the file and opens it under its name, as after a rotation.
    ///
    /// # Errors
    ///
    /// There is no file, or it cannot be opened: the old one stays in use.
    pub fn reopen(&self) -> Result<(), String> {
        let path = locked(&self.0.file).path.clone();
        self.open_file(&path.ok_or("Logging to file not configured")?)
    }

    /// Logs no more to standard error.
    pub(crate) fn leave_console(&self) {
        self.change(|settings| {
            settings.set_level(None, Some(LogDestination::Console), LogLevel::Off);
        });
    }

    /// The open file.
    pub(crate) fn file(&self) -> Option<File> {
        let file = locked(&self.0.file);
        file.file.as_ref().and_then(|file| file.try_clone().ok())
    }

    fn open_file(&self, path: &Path) -> Result<(), String> {
        let mut open = OpenOptions::new();
        let opened = open.append(true).create(true).mode(FILE_MODE).open(path);
        let opened = opened.map_err(|error| {
            let error = os_text(&error);
            self.write(modules::VLOG, LogLevel::Warning, || {
                format!("failed to open {} for logging: {error}", path.display())
            });
            error
        })?;
        let is_same = match &locked(&self.0.file).file {
            Some(old) => is_same_file(old, &opened),
            None => false,
        };
        if is_same {
            return Ok(());
        }
        let info = |text| self.write(modules::VLOG, LogLevel::Info, || text);
        if locked(&self.0.file).file.is_some() {
            info("closing log file".to_owned());
        }
        *locked(&self.0.file) = LogFile {
            // A later change of directory must not move it.
            path: Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            file: Some(opened),
        };
        self.update();
        info(format!("opened log file {}", path.display()));
        Ok(())
    }

    fn with_settings<T>(&self, read: impl FnOnce(&LogSettings) -> T) -> T {
        let settings = self.0.settings.read();
        read(&settings.unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut LogSettings) -> T) -> T {
        let settings = self.0.settings.write();
        let done = change(&mut settings.unwrap_or_else(PoisonError::into_inner));
        self.update();
        done
    }

    /// Brings the highest levels up to date.
    fn update(&self) {
        let has_file = locked(&self.0.file).file.is_some();
        self.with_settings(|settings| {
            for (module, highest) in settings.modules().zip(&self.0.highest) {
                let level = settings.highest_level(module, has_file);
                highest.store(level as u8, Ordering::Relaxed);
            }
        });
    }

    fn write_text(&self, module: LogModule, level: LogLevel, text: &str) {
        let thread = std::thread::current();
        let record = LogRecord {
            module,
            level,
            thread: thread
                .name()
                .filter(|name| !UNNAMED.contains(name))
                .unwrap_or(""),
            text,
        };
        let moment = self.moment();
        let [syslog, console, file] = self.with_settings(|settings| {
            LogDestination::ALL.map(|to| {
                let is_logged = settings.is_logged(module, to, level);
                is_logged.then(|| settings.line(to, &record, &moment))
            })
        });
        // Invariant 3: errors of destinations have no place to go to.
        if let Some(line) = console {
            let _ = std::io::stderr().write_all((line + "\n").as_bytes());
        }
        if let Some(line) = syslog {
            let mut syslog = locked(&self.0.syslog);
            let targeted = syslog.target_pattern().map(|pattern| {
                self.with_settings(|settings| settings.line_by(pattern, &record, &moment))
            });
            let facility = self.with_settings(LogSettings::facility);
            syslog.send(facility, level, &line, targeted.as_deref());
        }
        if let Some(line) = file
            && let Some(file) = &mut locked(&self.0.file).file
        {
            let _ = file.write_all((line + "\n").as_bytes());
        }
    }

    fn moment(&self) -> LogMoment {
        let sequence = SEQUENCE.get().wrapping_add(1);
        SEQUENCE.set(sequence);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        LogMoment {
            since_epoch: since_epoch.unwrap_or_default(),
            since_start: self.0.started.elapsed(),
            utc_offset_seconds: chrono::Local::now().offset().local_minus_utc(),
            sequence,
        }
    }
}

/// What the operating system says about an error, without its number.
pub(crate) fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Locks; a panic of another thread left nothing half-done behind.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_same_file(one: &File, other: &File) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
