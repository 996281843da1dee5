//! Captured kernels against our endpoint.

use std::path::PathBuf;

use conformance::replay::{End, Report, Rmbs, replay};

fn run(capture: &str, ours: End, rmbs: Rmbs) -> Report {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("vectors")
        .join(capture);
    let report = replay(&path, ours, rmbs).unwrap_or_else(|failure| panic!("{failure}"));
    println!(
        "{:#?}\n{:?}\n{:?}\n{:#?}",
        report.connections, report.counts, report.deviations, report.statistics
    );
    report
}
#[test]
fn a() {
    run("linux612-v1-onelink.pcap.gz", End::Server, Rmbs::Kept);
}
#[test]
fn b() {
    run("linux612-v1-onelink.pcap.gz", End::Server, Rmbs::Withdrawn);
}
#[test]
fn c() {
    run("linux612-v1-onelink.pcap.gz", End::Client, Rmbs::Kept);
}
#[test]
fn d() {
    run("linux612-v1-onelink.pcap.gz", End::Client, Rmbs::Withdrawn);
}
#[test]
fn e() {
    run("linux612-v1-twolinks.pcap.gz", End::Server, Rmbs::Kept);
}
#[test]
fn f() {
    run("linux612-v1-twolinks.pcap.gz", End::Server, Rmbs::Withdrawn);
}
#[test]
fn g() {
    run("linux612-v1-twolinks.pcap.gz", End::Client, Rmbs::Kept);
}
#[test]
fn h() {
    run("linux612-v1-twolinks.pcap.gz", End::Client, Rmbs::Withdrawn);
}
