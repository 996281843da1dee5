//! The sweep over connections as an SVG picture: both axes are logarithmic.

use std::fmt::Write;

use crate::transport::Transport;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;

/// Requests a second by connections.
pub(crate) type Line = (Transport, Vec<(usize, f64)>);

/// The picture's text.
pub(crate) fn draw(lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let most = points().map(|(at, _)| *at).max().unwrap_or(1) as f64;
    let highest = points().map(|(_, value)| *value).fold(1.0, f64::max);
    let lowest = points().map(|(_, value)| *value).fold(highest, f64::min);
    let (floor, ceiling) = (lowest.log10().floor(), highest.log10().ceil());
    let x = |at: f64| LEFT + (WIDTH - LEFT - RIGHT) * at.ln() / most.max(2.0).ln();
    let y = |value: f64| {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value.log10() - floor) / (ceiling - floor)
    };
    let mut svg = String::new();
    let mut put = |line: &str| {
        let _ = writeln!(svg, "{line}");
    };
    put(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">"
    ));
    put(&format!(
        "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>"
    ));
    put(&format!(
        "<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">Requests a second, 64 bytes each way, \
         epoll server and client</text>"
    ));
    for power in floor as i32..=ceiling as i32 {
        let height = y(10_f64.powi(power));
        let (end, label) = (WIDTH - RIGHT, rate(10_f64.powi(power)));
        put(&format!(
            "<line x1=\"{LEFT}\" y1=\"{height:.1}\" x2=\"{end}\" y2=\"{height:.1}\" \
             stroke=\"#dddddd\"/>"
        ));
        put(&format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            height + 4.0
        ));
    }
    if let Some((_, points)) = lines.first() {
        for (connections, _) in points {
            put(&format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{connections}</text>",
                x(*connections as f64),
                HEIGHT - BOTTOM + 18.0
            ));
        }
    }
    put(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">connections (beyond 100, 100 are \
         active)</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 14.0
    ));
    for (transport, points) in lines {
        let colour = match transport {
            Transport::Smc => "#c0392b",
            Transport::Tcp => "#2c5f8a",
            Transport::Unix => "#3a7d44",
        };
        let path: Vec<_> = points
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x(*at as f64), y(*value)))
            .collect();
        put(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        ));
        if let Some((at, value)) = points.last() {
            put(&format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{transport}</text>",
                x(*at as f64) + 8.0,
                y(*value) + 4.0
            ));
        }
    }
    put("</svg>");
    svg
}

/// A rate in few characters.
fn rate(value: f64) -> String {
    if value >= 1e6 {
        format!("{} M", value / 1e6)
    } else if value >= 1e3 {
        format!("{} k", value / 1e3)
    } else {
        value.to_string()
    }
}
