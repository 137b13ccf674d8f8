//! The log of a run: lines with time, level and module, to standard error, a file or the journal.
//!
//! ```text
//!   tracing::info!(target: MODULE, ..) --> filter, by level and module --> one line, one write
//! ```
//!
//! 1. A message below its module's level costs a look at the filter; its text is not made.
//! 2. A log that cannot be written stops nothing.
//! 3. After SIGHUP or `log/reopen` nothing more is written to a file that was renamed.
//!
//! Of the daemon the log is another, in Open vSwitch's form (`vlog`).

use std::fs::{File, OpenOptions};
use std::io::{Result as IoResult, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use thalweg_command::console::timestamp;
use thalweg_command::failure::bad_input;
use tracing::{Event, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// The filter if the command line gives none.
const USUAL: &str = "info";

/// The modules of a run's messages, by which a filter chooses.
pub(super) mod module {
    /// Entries that the caches evict or refuse.
    pub(in crate::run) const CACHES: &str = "caches";
    /// Commands, and clients of the control socket.
    pub(in crate::run) const CONTROL: &str = "control";
    /// The dashboard.
    pub(in crate::run) const DASHBOARD: &str = "dashboard";
    /// The fabric's map.
    pub(in crate::run) const FABRIC: &str = "fabric";
    /// The server of metrics.
    pub(in crate::run) const METRICS: &str = "metrics";
    /// Controllers and other OpenFlow clients.
    pub(in crate::run) const OPENFLOW: &str = "openflow";
    /// Ports and their interfaces.
    pub(in crate::run) const PORTS: &str = "ports";
    /// What SIGHUP read again.
    pub(in crate::run) const RELOAD: &str = "reload";
    /// What is kept for the next start.
    pub(in crate::run) const SNAPSHOT: &str = "snapshot";
    /// The run's begin and end.
    pub(in crate::run) const RUN: &str = "run";
}

/// What a command line says of the log.
#[derive(Debug, Default, clap::Args)]
pub(super) struct LogArguments {
    /// What is logged: a level, or levels of modules, such as `warn,ports=debug`
    ///
    /// Levels are off, error, warn, info, debug and trace. Modules are caches, control, dashboard,
    /// fabric, metrics, openflow, ports, reload, run and snapshot; those of libraries have their
    /// crates' names.
    #[arg(long, value_name = "FILTER", default_value = USUAL)]
    log: String,
    /// Append the log to a file instead of writing it to standard error
    #[arg(long, value_name = "PATH")]
    log_file: Option<PathBuf>,
    /// Send the log to systemd's journal, with priorities and modules as fields
    #[arg(long, conflicts_with = "log_file")]
    log_journal: bool,
}

/// The log of this process.
pub(super) struct Logging {
    filter: reload::Handle<Targets, Registry>,
    sink: Arc<Sink>,
}

impl Logging {
    /// Starts to log. It can be done once in a process.
    ///
    /// # Errors
    /// If the filter is wrong, the file cannot be opened, or no journal listens.
    pub(super) fn start(arguments: &LogArguments) -> Result<Logging> {
        let filter =
            read_filter(&arguments.log).map_err(|error| bad_input(format!("--log {error}")))?;
        let sink = Arc::new(Sink::open(arguments.log_file.as_deref())?);
        let (filter, handle) = reload::Layer::new(filter);
        let output = match arguments.log_journal {
            true => journal()?.boxed(),
            false => tracing_subscriber::fmt::layer()
                .event_format(Line)
                .with_writer(sink.clone())
                .log_internal_errors(false)
                .boxed(),
        };
        let registry = tracing_subscriber::registry().with(output.with_filter(filter));
        registry.try_init().context("cannot start to log")?;
        Ok(Logging {
            filter: handle,
            sink,
        })
    }

    /// The filter in use.
    pub(super) fn shown(&self) -> String {
        let shown = self.filter.with_current(ToString::to_string);
        // The filter lives as long as the process.
        shown.unwrap_or_default()
    }

    /// Logs something else from now on.
    ///
    /// # Errors
    /// If the text is no filter.
    pub(super) fn set(&self, filter: &str) -> Result<(), String> {
        let filter = read_filter(filter)?;
        self.filter
            .reload(filter)
            .map_err(|error| error.to_string())
    }

    /// Opens the file again, under its name.
    ///
    /// # Errors
    /// If it cannot be opened; then the log goes on where it was.
    pub(super) fn reopen(&self) -> Result<(), String> {
        self.sink.reopen()
    }

    /// The same; if it cannot be opened, the log says so.
    pub(super) fn reopen_or_say(&self) {
        if let Err(error) = self.reopen() {
            tracing::error!(target: module::RUN, "the log is not opened again: {error}");
        }
    }
}

/// The journal: `journalctl -t thalweg` shows the messages, `TARGET=ports` those of a module.
fn journal() -> Result<tracing_journald::Layer> {
    let layer = tracing_journald::Layer::new().map_err(|error| {
        bad_input(format!(
            "--log-journal: no journal listens ({error}); leave it out, or give --log-file"
        ))
    })?;
    // Of syslog(3).
    let priorities = PriorityMappings {
        info: Priority::Informational,
        debug: Priority::Debug,
        ..PriorityMappings::new()
    };
    Ok(layer
        .with_field_prefix(None)
        .with_syslog_identifier("thalweg".to_owned())
        .with_priority_mappings(priorities))
}

/// Reads a filter. A word alone is a level: one that is misspelt is not taken for a module.
fn read_filter(text: &str) -> Result<Targets, String> {
    let is_level = |part: &str| {
        let is_word = !part.is_empty() && part.parse::<LevelFilter>().is_ok();
        is_word || part.contains('=')
    };
    let parsed = text.parse().ok();
    parsed.filter(|_| text.split(',').all(is_level)).ok_or_else(|| {
        format!(
            "{text}: give a level (off, error, warn, info, debug, trace), or MODULE=LEVEL, with \
             commas between"
        )
    })
}

/// Where lines go.
enum Sink {
    /// Standard error.
    Errors,
    /// The end of a file.
    File(PathBuf, Mutex<File>),
}

impl Sink {
    fn open(path: Option<&Path>) -> Result<Sink> {
        let Some(path) = path else {
            return Ok(Sink::Errors);
        };
        let file = append(path).map_err(|error| {
            let path = path.display();
            bad_input(format!("--log-file {path}: {error}; choose another path"))
        })?;
        Ok(Sink::File(path.to_owned(), Mutex::new(file)))
    }

    fn reopen(&self) -> Result<(), String> {
        let Sink::File(path, file) = self else {
            return Ok(());
        };
        let opened = append(path).map_err(|error| format!("{}: {error}", path.display()))?;
        *file.lock().unwrap_or_else(PoisonError::into_inner) = opened;
        Ok(())
    }
}

fn append(path: &Path) -> IoResult<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Each write is one line.
impl Write for &Sink {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        match self {
            Sink::Errors => std::io::stderr().lock().write(bytes),
            Sink::File(_, file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

/// The form of a line: `thalweg: TIME LEVEL MODULE: TEXT`.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let metadata = event.metadata();
        let (level, module) = (metadata.level(), metadata.target());
        write!(writer, "thalweg: {} {level} {module}: ", timestamp())?;
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_and_levels_of_modules() {
        for (text, shown) in [
            ("info", "info"),
            ("warn,ports=debug", "ports=debug,warn"),
            ("off", "off"),
        ] {
            assert_eq!(read_filter(text).expect("it is right").to_string(), shown);
        }
        for text in ["wran", "ports", "ports=loud", "warn=ports", "info,", ""] {
            let error = read_filter(text).expect_err("it is wrong");
            assert!(
                error.starts_with(&format!("{text}: give a level")),
                "{error}"
            );
        }
    }
}
