//! The picture of a model.
//!
//! ```text
//!   name, age, version, rules                                    state
//!   packets, upcalls, probes, changes
//!   hit rate of each layer over time
//!   entries, evictions, repairs, drops
//!   ports
//!   entries by packets or bits, or what makes entries
//!   keys
//! ```
//!
//! Numbers have fixed places. Long lines are cut at the right; rows that do not fit are counted.

mod tables;

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use crate::model::{Overlay, TopModel};
use crate::number::{age, bars, count, percent, short, time};
use crate::rates::Rates;

/// Lines between the title and the ports.
const FIGURES: u16 = 8;
/// What became of entries that a change left as they were.
const UNCHANGED: &str = "unchanged";
/// Most rows of ports while there are entries to show.
const PORTS: usize = 6;

const HELP: &str = "\
q         end
p, space  pause, and go on
s         sort: packets a second, bits a second, slow path
/         show only entries that packets of a match can meet,
          such as ip,nw_dst=10.0.0.0/8
e, Enter  explain the chosen entry: what needed each bit of it
arrows    choose an entry; scroll a text
?         this page

Rates are of the last interval. A hit rate is the part of a layer's
lookups that found an entry; probes are masks that a lookup in the
megaflow cache searched. `repairing` is time of workers for changes.

Entries are those that a packet used in the last minute. Their rates begin
at the second look. `slow path` has entries by port and mask: those of a
single packet cost a walk through the tables, and answered nothing since.";

/// How the picture is coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    /// Whether there are colours; otherwise bold, dim and reversed letters only.
    pub(crate) has_color: bool,
}

impl Palette {
    fn of(self, color: Color) -> Style {
        match self.has_color {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    fn warning(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn title(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn heading(self) -> Style {
        self.of(Color::Cyan).add_modifier(Modifier::BOLD)
    }
}

/// Draws the picture.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &TopModel, palette: Palette) {
    let ports = model.rates.as_ref().map_or(0, |rates| rates.ports.len());
    let shown = ports.min(PORTS);
    // A line says how many ports are not shown.
    let port_lines = 1 + shown as u16 + u16::from(ports > shown);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(FIGURES),
        Constraint::Length(port_lines),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [title, figures, ports, entries, keys] = areas.areas(frame.area());
    frame.render_widget(title_line(model, title.width, palette), title);
    frame.render_widget(
        Paragraph::new(figure_lines(model, figures.width, palette)),
        figures,
    );
    frame.render_widget(Paragraph::new(tables::ports(model, shown, palette)), ports);
    let lines = tables::entries(model, entries, palette);
    frame.render_widget(Paragraph::new(lines), entries);
    frame.render_widget(key_line(model, palette), keys);
    match &model.overlay {
        Overlay::None => {}
        Overlay::Help => overlay(frame, "thalweg top", HELP, 0),
        Overlay::Text(text, from) => overlay(frame, "Why the entry is as it is", text, *from),
    }
}

/// Puts a text over the picture.
fn overlay(frame: &mut Frame<'_>, title: &str, text: &str, from: usize) {
    let whole = frame.area();
    let area = Rect {
        y: whole.y + 1,
        height: whole.height.saturating_sub(2),
        ..whole
    };
    let lines = text.lines().skip(from).map(Line::raw);
    let lines: Vec<Line<'_>> = lines.collect();
    let block = Block::bordered().title(format!(" {title} "));
    let text = Paragraph::new(lines)
        .wrap(Wrap { trim: false })
        .block(block);
    frame.render_widget(Clear, area);
    frame.render_widget(text, area);
}

fn title_line<'a>(model: &'a TopModel, width: u16, palette: Palette) -> Line<'a> {
    let mut left = format!(" {} ", model.name);
    if let Some(counts) = &model.counts {
        left += &format!(
            "  up {}  version {}  {} rules  {} connections",
            age(counts.seconds),
            counts.version,
            count(counts.rules),
            count(counts.connections),
        );
    }
    let (state, is_good) = match (&model.lost, model.is_paused) {
        (Some(_), _) => ("no switch ".to_owned(), false),
        (None, true) => ("paused ".to_owned(), false),
        (None, false) => (
            format!("every {:.1} s ", model.interval.as_secs_f64()),
            true,
        ),
    };
    let room = (width as usize).saturating_sub(state.len());
    let left: String = left.chars().take(room).collect();
    let state_style = match is_good {
        true => palette.title(),
        false => palette.warning().add_modifier(Modifier::REVERSED),
    };
    Line::from(vec![
        Span::styled(format!("{left:<room$}"), palette.title()),
        Span::styled(state, state_style),
    ])
}

/// The figures of the whole switch.
fn figure_lines<'a>(model: &'a TopModel, width: u16, palette: Palette) -> Vec<Line<'a>> {
    let (Some(counts), Some(rates)) = (&model.counts, &model.rates) else {
        let text = match (&model.lost, &model.counts) {
            (Some(why), _) => why.clone(),
            (None, Some(_)) => "Rates need a second look.".to_owned(),
            (None, None) => "Waiting for the switch.".to_owned(),
        };
        return vec![Line::raw(""), Line::raw(text)];
    };
    let probes = rates.probes_per_lookup;
    let probes = probes.map_or_else(|| "-".to_owned(), |probes| format!("{probes:.2}"));
    let totals = Line::raw(format!(
        "packets {:>5}/s  recirculated {:>5}/s  computed {:>5}/s  probes a lookup {:>5}",
        short(rates.packets),
        short(rates.recirculations),
        short(rates.computed),
        probes,
    ));
    let repaired = rates.repairs.iter().filter(|(name, _)| *name != UNCHANGED);
    let repairs: f64 = repaired.map(|(_, rate)| rate).sum();
    let changes = Line::raw(format!(
        "changes {:>5}/s  followed in {:>6}  repairing {:>5} %  repairs {:>5}/s",
        short(rates.changes),
        rates
            .seconds_per_change
            .map_or_else(|| "-".to_owned(), time),
        percent(Some(rates.repairing)),
        short(repairs),
    ));
    let [microflow, megaflow, upcalls] = layer_lines(model, width, palette);
    let of = |what: &str, entries: u64| format!("{what} {:>5}", count(entries));
    vec![
        totals,
        microflow,
        megaflow,
        upcalls,
        Line::raw(format!(
            "{} {} {}  evicted {:>5}/s refused {:>5}/s",
            of("entries exact", counts.microflow.entries),
            of("megaflow", counts.megaflow.entries),
            of("masks", counts.masks),
            short(rates.evictions.values().sum()),
            short(rates.refusals.values().sum()),
        )),
        Line::raw(reasons_text(rates)),
        changes,
        drop_line(model, palette),
    ]
}

/// The sum of rates, and the rates by name.
fn sum_text(what: &str, rates: &BTreeMap<String, f64>) -> String {
    let sum = rates.values().sum();
    format!("{what} {:>5}/s{}", short(sum), by_name(rates))
}

/// The rates above zero by name, the highest first.
fn by_name(rates: &BTreeMap<String, f64>) -> String {
    let counted = rates.iter().filter(|(name, _)| *name != UNCHANGED);
    let mut counted: Vec<_> = counted.filter(|(_, rate)| **rate > 0.0).collect();
    counted.sort_by(|one, other| other.1.total_cmp(one.1));
    let texts = counted
        .into_iter()
        .map(|(name, rate)| format!("  {} {}", name.replace('_', " "), short(*rate)));
    texts.collect()
}

/// Why entries were evicted or refused, and what repairs did.
fn reasons_text(rates: &Rates) -> String {
    let parts = [
        ("evicted as", &rates.evictions),
        ("refused as", &rates.refusals),
        ("repairs", &rates.repairs),
    ];
    let texts = parts.map(|(what, rates)| match by_name(rates) {
        names if names.is_empty() => String::new(),
        names => format!("{what}{names}  "),
    });
    texts.concat()
}

fn drop_line<'a>(model: &TopModel, palette: Palette) -> Line<'a> {
    let drops = model.rates.as_ref().map(|rates| &rates.drops);
    let text = drops.map_or_else(String::new, |drops| sum_text("dropped", drops));
    let is_dropping = drops.is_some_and(|drops| drops.values().any(|rate| *rate > 0.0));
    match is_dropping {
        true => Line::styled(text, palette.warning()),
        false => Line::raw(text),
    }
}

/// The hit rates and upcalls, now and over time.
fn layer_lines<'a>(model: &TopModel, width: u16, palette: Palette) -> [Line<'a>; 3] {
    let Some(rates) = &model.rates else {
        return Default::default();
    };
    let line = |label: String, line: String, color| {
        Line::from(vec![
            Span::raw(label),
            Span::styled(line, palette.of(color)),
        ])
    };
    let layer = |name, share, lookups| {
        format!(
            "{name:<8} {:>5} % of {:>5}/s ",
            percent(share),
            short(lookups)
        )
    };
    let microflow = layer("exact", rates.microflow_hit_rate, rates.microflow_lookups);
    let megaflow = layer("megaflow", rates.megaflow_hit_rate, rates.megaflow_lookups);
    let room = (width as usize).saturating_sub(microflow.chars().count());
    let history = || model.history.iter();
    let top = history().map(|sample| sample.upcalls).fold(0.0, f64::max);
    let upcalls = format!(
        "upcalls  {:>5}/s max {:>5}/s ",
        short(rates.upcalls),
        short(top)
    );
    let over_time = [
        bars(history().map(|sample| sample.microflow), 1.0, room),
        bars(history().map(|sample| sample.megaflow), 1.0, room),
        bars(history().map(|sample| Some(sample.upcalls)), top, room),
    ];
    let [of_microflow, of_megaflow, of_upcalls] = over_time;
    [
        line(microflow, of_microflow, Color::Green),
        line(megaflow, of_megaflow, Color::Green),
        line(upcalls, of_upcalls, Color::Yellow),
    ]
}

/// The keys; or the filter that is typed, or what went wrong.
fn key_line<'a>(model: &'a TopModel, palette: Palette) -> Line<'a> {
    if let Some(typed) = &model.typed {
        return Line::raw(format!("filter: {typed}_"));
    }
    let wrong = model.lost.as_ref().or(model.refused.as_ref());
    match wrong {
        Some(text) => Line::styled(text.as_str(), palette.warning()),
        None => Line::raw("q end  p pause  s sort  / filter  e explain  arrows choose  ? help"),
    }
}
