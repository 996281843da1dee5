//! The screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::{Paragraph, Row, Sparkline, Table};

use super::app::App;
use super::model::{GroupLine, Line};
use crate::cli::SortKey;

/// Most lines of link groups.
const GROUPS: u16 = 8;
/// Columns of a link group before its sparkline.
const GROUP_WIDTH: u16 = 64;

/// Columns of connections: least room, whether they have more if there is some, and which are the last
/// to go where there is too little.
const COLUMNS: [(u16, bool, u8); 9] = [
    (5, false, 3),
    (16, true, 5),
    (16, true, 4),
    (7, false, 1),
    (7, false, 2),
    (8, false, 6),
    (9, false, 7),
    (14, false, 8),
    (12, true, 0),
];

/// Most room for an address with its port.
const ADDRESS: u16 = 23;

/// Rows of the least screen that has link groups.
const LEAST_FOR_GROUPS: u16 = 8;

const KEYS: &str =
    "q end  s sort  r reverse  p pause  / filter  Esc no filter  arrows, pages: scroll";

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let groups = u16::try_from(app.model.groups.len()).unwrap_or(GROUPS);
    // Small screens have the connections.
    let height = frame.area().height;
    let below = match height {
        LEAST_FOR_GROUPS.. => groups.min(GROUPS).min(height / 3).saturating_add(1),
        _ => 0,
    };
    let [head, connections, below, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(2),
        Constraint::Length(below),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, app, head);
    draw_connections(frame, app, connections);
    draw_groups(frame, app, below);
    let foot_text = match app.is_typing {
        true => format!("filter: {}_  (Enter to keep, Esc for none)", app.filter),
        false => KEYS.to_owned(),
    };
    frame.render_widget(Paragraph::new(foot_text), foot);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// A colour, unless there are none.
fn coloured(app: &App, colour: Color) -> Style {
    match app.colours {
        true => Style::new().fg(colour),
        false => Style::new(),
    }
}

fn draw_head(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let model = &app.model;
    let [smcd, smcr, tcp] = model.carried();
    let sum = |of: fn(&Line) -> f64| short(model.lines.iter().map(of).sum());
    let order = if app.reversed { ", reversed" } else { "" };
    let mut state = format!("sorted by {}{order}", app.sort.name());
    if !app.filter.is_empty() {
        state += &format!("; filter \"{}\"", app.filter);
    }
    let paused = if app.paused { "; PAUSED" } else { "" };
    let counts = format!(
        "smcx top: {} programs; connections: {smcd} SMC-D, {smcr} SMC-R, {tcp} TCP{paused}",
        model.processes
    );
    let rates = format!(
        "{}B/s sent, {}B/s received, {}/s round trips, {}/s stalls; {state}",
        sum(|line| line.rates.sent),
        sum(|line| line.rates.received),
        sum(|line| line.rates.trips),
        sum(|line| line.rates.stalls),
    );
    let lines = vec![Text::styled(counts, bold()), Text::raw(rates)];
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_connections(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let page = usize::from(area.height.saturating_sub(1));
    let lines = app.lines();
    let offset = app.offset.min(lines.len().saturating_sub(page));
    let shown = columns(area.width);
    let rows = lines.iter().skip(offset).take(page).map(|line| {
        let [local, peer] = &line.ends;
        let rates = &line.rates;
        let numbers = [rates.sent, rates.received, rates.trips, rates.stalls];
        let [sent, received, trips, stalls] = numbers.map(short);
        let style = match line.mode {
            "TCP" => coloured(app, Color::Yellow),
            _ if rates.stalls > 0.0 => coloured(app, Color::Red),
            _ => Style::new(),
        };
        let texts = [
            line.mode.to_owned(),
            local.clone(),
            peer.clone(),
            sent,
            received,
            trips,
            stalls,
            line.state.clone(),
            line.process.clone(),
        ];
        Row::new(of_columns(shown, texts)).style(style)
    });
    let mark = |key: SortKey, name: &str| match app.sort == key {
        true => format!("{name}*"),
        false => name.to_owned(),
    };
    let header = [
        mark(SortKey::Rate, "Mode"),
        "Local".to_owned(),
        "Peer".to_owned(),
        mark(SortKey::Sent, "Sent/s"),
        mark(SortKey::Received, "Recv/s"),
        mark(SortKey::Trips, "Trips/s"),
        mark(SortKey::Stalls, "Stalls/s"),
        "State".to_owned(),
        mark(SortKey::Process, "Process"),
    ];
    let header = Row::new(of_columns(shown, header));
    let widths = COLUMNS.map(|(least, grows, rank)| match (grows, rank) {
        (_, 0) => Constraint::Min(least),
        (true, _) => Constraint::Max(ADDRESS),
        (false, _) => Constraint::Length(least),
    });
    let widths = of_columns(shown, widths);
    let header = header.style(bold().add_modifier(Modifier::REVERSED));
    frame.render_widget(Table::new(rows, widths).header(header), area);
    (app.page, app.offset) = (page, offset);
}

/// The columns that a screen of this width has room for.
fn columns(width: u16) -> [bool; 9] {
    // Each is followed by a blank but the last one.
    let taken = |last: u8| -> u16 {
        let kept = COLUMNS.iter().filter(|(_, _, rank)| *rank <= last);
        kept.map(|(least, _, _)| least + 1).sum::<u16>() - 1
    };
    let fits = |last: &u8| taken(*last) <= width;
    let last = (0..COLUMNS.len() as u8).rev().find(fits).unwrap_or(0);
    COLUMNS.map(|(_, _, rank)| rank <= last)
}

/// What belongs to the columns that are shown.
fn of_columns<T>(shown: [bool; 9], all: [T; 9]) -> Vec<T> {
    let all = all.into_iter().zip(shown);
    all.filter_map(|(of, is_shown)| is_shown.then_some(of))
        .collect()
}

fn draw_groups(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let mut groups: Vec<&GroupLine> = app.model.groups.values().collect();
    groups.sort_by(|one, other| other.rate.total_cmp(&one.rate));
    let room = usize::from(area.height.saturating_sub(1));
    let hidden = groups.len().saturating_sub(room);
    let more = match hidden {
        0 => String::new(),
        more => format!(" ({more} more)"),
    };
    let title = format!("Link groups, by rate{more}");
    let mut y = area.y;
    let mut row = || {
        let at = Rect {
            y,
            height: 1,
            ..area
        };
        y = y.saturating_add(1);
        at.intersection(area)
    };
    frame.render_widget(Paragraph::new(Text::styled(title, bold())), row());
    for group in groups.into_iter().take(room) {
        let at = row();
        let [active, links] = group.links;
        let links = match group.technology {
            "SMCR" => format!("{active}/{links} links"),
            _ => String::new(),
        };
        let text = format!(
            "{} {:08x} {:>5} conns {links:<9} {:>7}B/s {}",
            group.technology,
            group.id,
            group.connections,
            short(group.rate),
            group.process
        );
        let [left, right] =
            Layout::horizontal([Constraint::Max(GROUP_WIDTH), Constraint::Fill(1)]).areas(at);
        let broken = group.technology == "SMCR" && active == 0;
        let style = match broken {
            true => coloured(app, Color::Red),
            false => Style::new(),
        };
        frame.render_widget(Paragraph::new(Text::styled(text, style)), left);
        let width = usize::from(right.width);
        let skipped = group.history.len().saturating_sub(width);
        let data: Vec<u64> = group.history.iter().skip(skipped).copied().collect();
        let line = Sparkline::default()
            .data(&data)
            .style(coloured(app, Color::Cyan));
        frame.render_widget(line, right);
    }
}

/// A number in at most six columns.
fn short(value: f64) -> String {
    // The sum of no numbers has a sign.
    let value = value + 0.0;
    if value < 9.95 && value > 0.0 {
        return format!("{value:.1}");
    }
    let mut scaled = value;
    for letter in ["", "K", "M", "G", "T"] {
        if scaled < 999.5 {
            return match scaled < 9.995 && !letter.is_empty() {
                true => format!("{scaled:.2}{letter}"),
                false => format!("{scaled:.0}{letter}"),
            };
        }
        scaled /= 1000.0;
    }
    format!("{scaled:.1e}P")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_fit_their_columns() {
        for (value, text) in [
            (0.0, "0"),
            (std::iter::empty::<f64>().sum(), "0"),
            (0.4, "0.4"),
            (42.0, "42"),
            (999.4, "999"),
            (1000.0, "1.00K"),
            (12_345.0, "12K"),
            (4.29e9, "4.29G"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
