//! Requests of HTTP/1.x as an exporter gets them: a head without a body, and one answer.

use super::text;

/// Most bytes of a request's head.
pub const HEAD: usize = 8192;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What is asked for.
    pub asked: Asked,
    /// Whether the body is wanted, and not with HEAD what goes before it alone.
    pub body: bool,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The metrics.
    Metrics,
    /// The page that names the place of the metrics.
    Index,
    /// Nothing that there is: the status, and a header that goes with it.
    Refused(&'static str, &'static str),
}

/// Whether the end of a head is among these bytes of it.
#[must_use]
pub fn has_end(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|end| end == b"\r\n\r\n") || bytes.windows(2).any(|end| end == b"\n\n")
}

impl Request {
    /// The request of a head.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        Self {
            asked: asked(head),
            body: has_body(head),
        }
    }

    /// A request that is refused, by as much of its head as there is.
    #[must_use]
    pub fn refused(head: &[u8], status: &'static str) -> Self {
        Self {
            asked: Asked::Refused(status, ""),
            body: has_body(head),
        }
    }
}

/// Whether an answer has a body (RFC 9110, 9.3.2).
fn has_body(head: &[u8]) -> bool {
    !head.starts_with(b"HEAD ")
}

fn asked(head: &[u8]) -> Asked {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Ok(line) = std::str::from_utf8(line) else {
        return Asked::Refused("400 Bad Request", "");
    };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Asked::Refused("400 Bad Request", "");
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !target.starts_with('/') {
        return Asked::Refused("400 Bad Request", "");
    }
    if !matches!(method, "GET" | "HEAD") {
        return Asked::Refused("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
    }
    match target.split('?').next() {
        Some("/metrics") => Asked::Metrics,
        Some("/") => Asked::Index,
        _ => Asked::Refused("404 Not Found", ""),
    }
}

/// The answer to a request; `metrics` gives the text, or says why there is none.
#[must_use]
pub fn answer<'a>(request: Request, metrics: impl FnOnce() -> Result<&'a str, String>) -> String {
    let body = request.body;
    let plain = |status: &str, headers: &str, text: &str| {
        response(status, "text/plain; charset=utf-8", headers, text, body)
    };
    match request.asked {
        Asked::Metrics => match metrics() {
            Ok(metrics) => response("200 OK", text::TYPE, "", metrics, body),
            Err(why) => plain("503 Service Unavailable", "", &format!("{why}\n")),
        },
        Asked::Index => plain("200 OK", "", "smcx metrics: see /metrics\n"),
        Asked::Refused(status, headers) => plain(status, headers, &format!("{status}\n")),
    }
}

fn response(status: &str, kind: &str, headers: &str, text: &str, body: bool) -> String {
    let length = text.len();
    let body = if body { text } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         {headers}Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )
}
