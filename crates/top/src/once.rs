//! One picture as a text, without a terminal; or the same as a JSON object.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, anyhow};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use crate::ask::{AskError, Question, Switchboard};
use crate::model::{Sort, TopModel};
use crate::picture::{Palette, draw};

/// The size of a picture without a terminal; lines below the last entry are left out.
const HEIGHT: u16 = 60;
const WIDTH: u16 = 80;

/// Looks at the switch twice, and returns the picture of the time between.
///
/// # Errors
/// If there is no switch, or it refuses the filter.
pub(crate) fn execute(
    switch: &Switchboard,
    interval: Duration,
    filter: Option<String>,
    is_json: bool,
) -> Result<String> {
    let mut model = TopModel::new(switch.name(), interval, filter.clone());
    let looks = [
        Question::Talkers(filter.clone()),
        Question::Live,
        Question::Live,
        Question::Talkers(filter),
    ];
    for (place, question) in looks.into_iter().enumerate() {
        if place == 2 {
            sleep(interval);
        }
        model.handle_answer(switch.ask(question), Duration::ZERO);
        let wrong = model.lost.take().map(AskError::Lost);
        let wrong = wrong.or_else(|| model.refused.take().map(AskError::Refused));
        match wrong {
            None => {}
            Some(AskError::Lost(text) | AskError::Refused(text)) => return Err(anyhow!(text)),
        }
    }
    match is_json {
        true => json_of(&model),
        false => Ok(text_of(&mut model, width())),
    }
}

/// The width that the shell says, if it does.
fn width() -> u16 {
    let said = std::env::var("COLUMNS").ok();
    let width = said.and_then(|text| text.parse().ok());
    width.unwrap_or(WIDTH).clamp(WIDTH, 1_000)
}

/// The picture with both lower tables; no line is chosen.
fn text_of(model: &mut TopModel, width: u16) -> String {
    let mut text = screen(model, width, HEIGHT);
    // Neither keys nor a choice are of use.
    text.truncate(text.trim_end().rfind('\n').unwrap_or(0));
    text.truncate(text.trim_end().len());
    model.sort = Sort::SlowPath;
    let slow = screen(model, width, HEIGHT);
    let heading = slow
        .lines()
        .position(|line| line.contains("slow path: last rule"));
    let slow = slow.lines().skip(heading.unwrap_or(0));
    for line in slow.take_while(|line| !line.is_empty()) {
        text.push('\n');
        text += line;
    }
    text
}

/// The picture as lines without spaces at their ends.
pub(crate) fn screen(model: &TopModel, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let palette = Palette { has_color: false };
    let Ok(drawn) = terminal.draw(|frame| draw(frame, model, palette));
    let area = drawn.area;
    let lines = (area.top()..area.bottom()).map(|y| {
        let symbols = (area.left()..area.right()).map(|x| drawn.buffer[(x, y)].symbol());
        let line: String = symbols.collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

fn json_of(model: &TopModel) -> Result<String> {
    let counts = model.counts.as_ref();
    let object = json!({
        "name": model.name,
        "version": counts.map(|counts| counts.version),
        "rules": counts.map(|counts| counts.rules),
        "connections": counts.map(|counts| counts.connections),
        "microflows": counts.map(|counts| counts.microflow.entries),
        "megaflows": counts.map(|counts| counts.megaflow.entries),
        "masks": counts.map(|counts| counts.masks),
        "rates": model.rates,
        "talkers": model.talkers,
        "slow_path": model.makers,
    });
    Ok(serde_json::to_string_pretty(&object)?)
}
