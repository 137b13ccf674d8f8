//! The tables of the picture: ports, entries, and what makes entries.

use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;

use super::Palette;
use crate::model::{Sort, TopModel};
use crate::number::{count, short};
use crate::rates::{MakerRates, PortRates, TalkerRates};

/// The ports, the busiest first; `shown` of them.
pub(super) fn ports<'a>(model: &TopModel, shown: usize, palette: Palette) -> Vec<Line<'a>> {
    let Some(rates) = &model.rates else {
        return Vec::new();
    };
    let heading = format!(
        "{:<20} {:<8} {:>11} {:>6} {:>11} {:>6} {:>7}",
        "port", "status", "received/s", "bit/s", "sent/s", "bit/s", "drops/s"
    );
    let mut lines = vec![Line::styled(heading, palette.heading())];
    let mut ports: Vec<&PortRates> = rates.ports.iter().collect();
    // The sort is stable, so idle ports keep the switch's order.
    ports.sort_by(|one, other| other.packets().total_cmp(&one.packets()));
    let more = ports.len() - shown;
    let is_one_bridge = ports.windows(2).all(|two| two[0].bridge == two[1].bridge);
    lines.extend(ports.into_iter().take(shown).map(|port| {
        let name = match is_one_bridge {
            true => port.name.clone(),
            false => format!("{}:{}", port.bridge, port.name),
        };
        let text = format!(
            "{} {:<8} {:>11} {:>6} {:>11} {:>6} {:>7}",
            fitted(&name, 20),
            port.status,
            short(port.received_packets),
            short(port.received_bits),
            short(port.sent_packets),
            short(port.sent_bits),
            short(port.drops),
        );
        match port.status == "up" {
            true => Line::raw(text),
            false => Line::styled(text, palette.warning()),
        }
    }));
    if more > 0 {
        lines.push(Line::raw(format!("{more} more ports")));
    }
    lines
}

/// The lower table, as far as it fits, with the chosen line in view.
pub(super) fn entries<'a>(model: &TopModel, area: Rect, palette: Palette) -> Vec<Line<'a>> {
    let rows = usize::from(area.height.saturating_sub(1));
    let from = (model.chosen + 1).saturating_sub(rows);
    let filter = model.filter.as_ref();
    let filter = filter.map_or_else(String::new, |filter| format!("  filter={filter}"));
    let more = model.lines().saturating_sub(from + rows);
    let more = match more {
        0 => String::new(),
        more => format!("  {more} more"),
    };
    let (heading, texts): (String, Vec<String>) = match model.sort {
        Sort::SlowPath => (
            format!(
                "{:>7} {:>7} {:<12} slow path: last rule, example{more}",
                "entries", "single", "port"
            ),
            model.makers.iter().map(maker_text).collect(),
        ),
        Sort::Packets | Sort::Bits => (
            format!(
                "{:>7} {:>7} {:<12} entry by {}{filter}{more}",
                "pkt/s",
                "bit/s",
                "port",
                match model.sort {
                    Sort::Bits => "bits",
                    _ => "packets",
                }
            ),
            model.talkers.iter().map(talker_text).collect(),
        ),
    };
    let mut lines = vec![Line::styled(heading, palette.heading())];
    let rows = texts.into_iter().enumerate().skip(from).take(rows);
    lines.extend(rows.map(|(place, text)| match place == model.chosen {
        true => {
            let width = area.width as usize;
            let style = palette.title().add_modifier(Modifier::BOLD);
            Line::styled(format!("{text:<width$}"), style)
        }
        false => Line::raw(text),
    }));
    lines
}

fn talker_text(talker: &TalkerRates) -> String {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), short);
    format!(
        "{:>7} {:>7} {} {} actions:{}",
        rate(talker.packets),
        rate(talker.bits),
        fitted(&talker.port, 12),
        told(&talker.flow),
        talker.actions
    )
}

fn maker_text(maker: &MakerRates) -> String {
    let rule = maker.rules.last().map_or("", String::as_str);
    format!(
        "{:>7} {:>7} {} {rule}  {}",
        count(maker.entries),
        count(maker.single),
        fitted(&maker.port, 12),
        told(&maker.example),
    )
}

/// A flow without what each has: it is cut at the right, and the port has a column.
fn told(flow: &str) -> String {
    let mut flow = flow.replace("packet_type(ns=0,id=0),", "");
    if let Some(rest) = flow.strip_prefix("recirc_id(0),") {
        flow = rest.to_owned();
    }
    match flow
        .strip_prefix("in_port(")
        .and_then(|rest| rest.split_once("),"))
    {
        Some((_, rest)) => rest.to_owned(),
        None => flow,
    }
}

/// A text of exactly `width` characters; a long one is cut in the middle of its end.
fn fitted(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width - 1).chain(['…']).collect(),
        false => format!("{text:<width$}"),
    }
}
