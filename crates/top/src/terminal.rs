//! The loop on a terminal: keys and answers in, pictures out.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ask::Switchboard;
use crate::model::{Key, TopModel};
use crate::picture::{Palette, draw};

/// How long the loop may take to end after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// The longest wait for a key.
const PATIENCE: Duration = Duration::from_millis(50);

/// Gives the terminal back when dropped (invariant 3); a panic gives it back by ratatui's hook.
struct Borrowed(DefaultTerminal);

impl Drop for Borrowed {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the switch until the user or a signal ends it.
///
/// # Errors
/// If there is no terminal.
pub(crate) fn execute(
    switch: Switchboard,
    interval: Duration,
    filter: Option<String>,
) -> Result<()> {
    if !std::io::stdout().is_terminal() {
        bail!("standard output is no terminal; print one picture with --once");
    }
    let must_end = Arc::new(AtomicBool::new(false));
    watch_signals(Arc::clone(&must_end)).context("cannot catch signals")?;
    let mut model = TopModel::new(switch.name(), interval, filter);
    let (questions, answers) = switch.start()?;
    let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore());
    let terminal = terminal.context("cannot use the terminal")?;
    let mut terminal = Borrowed(terminal);
    let forbids_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let palette = Palette {
        has_color: !forbids_color,
    };
    let start = Instant::now();
    let mut must_draw = true;
    while !model.is_ended() && !must_end.load(Ordering::Relaxed) {
        for answered in answers.try_iter() {
            model.handle_answer(answered, start.elapsed());
            must_draw = true;
        }
        if let Some(question) = model.poll_question(start.elapsed()) {
            questions.send(question).context("the asker has ended")?;
        }
        if std::mem::take(&mut must_draw) {
            terminal.0.draw(|frame| draw(frame, &model, palette))?;
        }
        if event::poll(PATIENCE)? {
            must_draw = true;
            match event::read()? {
                Event::Key(pressed) if is_end(pressed) => return Ok(()),
                Event::Key(pressed) => {
                    if let Some(key) = key_of(pressed) {
                        model.handle_key(key);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Has a signal end the loop; by force after [`GRACE`], since crossterm never stops reading from a
/// terminal that is gone.
fn watch_signals(must_end: Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    let watcher = std::thread::Builder::new().name("signals".to_owned());
    watcher.spawn(move || {
        if signals.forever().next().is_some() {
            must_end.store(true, Ordering::Relaxed);
            std::thread::sleep(GRACE);
            ratatui::restore();
            std::process::exit(0);
        }
    })?;
    Ok(())
}

/// Whether a key is Ctrl-C, which is no signal while each key is read.
fn is_end(pressed: KeyEvent) -> bool {
    pressed.code == KeyCode::Char('c') && pressed.modifiers.contains(KeyModifiers::CONTROL)
}

fn key_of(pressed: KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    let key = match pressed.code {
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    };
    Some(key)
}
