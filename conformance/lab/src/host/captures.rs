//! What was on the wire: decoded by ourselves, and by tshark.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::tools::{find, text};
use super::{Trouble, failed};

/// Frames that tshark calls malformed for no fault of SMC's: it reads an ADD LINK of
/// version 2 that carries keys beyond its end.
const KNOWN: &str = "smc.add.link.rkey_count";

/// Output of `smcx decode` for an RDMA WRITE of which a packet was never sent: soft-RoCE
/// loses some when the machine is busy, and sends them later.
const LOST: &str = " incomplete";

/// Judges a capture, in which connections were accepted in this version. The decoded
/// messages are written beside it. If packets were lost, on purpose or not, rules that seem
/// broken are only reported: the content of a packet that is missing they cannot know.
///
/// # Errors
/// The inner error is what is malformed, the outer one that it could not be determined.
pub(crate) fn judge(
    capture: &Path,
    version: &str,
    lossy: bool,
) -> Result<Result<Option<String>, String>, Trouble> {
    let arguments: Vec<OsString> = vec!["smcx".into(), "decode".into(), capture.into()];
    let (mut lines, mut problems) = (Vec::new(), Vec::new());
    let status = smcx::run(arguments, &mut lines, &mut problems);
    let decoded = capture.with_extension("smcx.txt");
    fs::write(&decoded, &lines).map_err(failed(decoded.display()))?;
    if status != 0 {
        let sentence = String::from_utf8_lossy(&problems).trim().to_owned();
        return Ok(Err(format!("the capture, by smcx: {sentence}")));
    }
    if let Err(sentence) = versions(capture, &lines, version)? {
        return Ok(Err(sentence));
    }
    let lost = String::from_utf8_lossy(&lines).contains(LOST);
    Ok(match checked(capture)? {
        Ok(()) => Ok(None),
        Err(sentence) if lost || lossy => Ok(Some(format!("packets lost; {sentence}"))),
        Err(sentence) => Err(sentence),
    })
}

fn versions(capture: &Path, lines: &[u8], version: &str) -> Result<Result<(), String>, Trouble> {
    let text = String::from_utf8_lossy(lines);
    let mut accepts = text.lines().filter(|line| line.contains("CLC Accept "));
    let expected = ["", "SMC-D "].map(|of| format!("CLC Accept {of}{version} "));
    let fits = |line: &&str| expected.iter().any(|form| line.contains(form));
    if let Some(other) = accepts.find(|line| !fits(line)) {
        return Ok(Err(format!(
            "the capture: another version: {}",
            other.trim()
        )));
    }
    match malformed_by_tshark(capture)? {
        Some(frame) => Ok(Err(format!(
            "the capture, by tshark: malformed frame {frame}"
        ))),
        None => Ok(Ok(())),
    }
}

/// What breaks a rule of `docs/checker.md`; everything is written beside the capture.
fn checked(capture: &Path) -> Result<Result<(), String>, Trouble> {
    let arguments: Vec<OsString> = vec!["smcx".into(), "check".into(), capture.into()];
    let (mut lines, mut problems) = (Vec::new(), Vec::new());
    let status = smcx::run(arguments, &mut lines, &mut problems);
    let report = capture.with_extension("check.txt");
    fs::write(&report, &lines).map_err(failed(report.display()))?;
    if status == 0 {
        return Ok(Ok(()));
    }
    let text = String::from_utf8_lossy(&lines);
    let first = text.lines().find(|line| !line.starts_with("note: "));
    let sentence = String::from_utf8_lossy(&problems).trim().to_owned();
    Ok(Err(format!(
        "the conversation, by smcx check: {sentence}: {}",
        first.unwrap_or_default()
    )))
}

/// How many link groups came about: first contacts that were accepted.
pub(crate) fn groups(capture: &Path) -> Result<usize, Trouble> {
    let decoded = capture.with_extension("smcx.txt");
    let text = fs::read_to_string(&decoded).map_err(failed(decoded.display()))?;
    let accepts = text.lines().filter(|line| line.contains("CLC Accept "));
    Ok(accepts
        .filter(|line| line.contains(" first-contact "))
        .count())
}

/// The first malformed frame, as tshark reports it.
fn malformed_by_tshark(capture: &Path) -> Result<Option<String>, Trouble> {
    let Some(tshark) = find("tshark") else {
        return Ok(None);
    };
    let filter = format!("_ws.malformed && !({KNOWN})");
    let frames = text(
        Command::new(tshark)
            .args([
                "--disable-protocol",
                "rpcordma",
                "--disable-heuristic",
                "eth_over_ib",
                "-r",
            ])
            .arg(capture)
            .args(["-Y", &filter]),
    )?;
    Ok(frames.lines().next().map(str::to_owned))
}
