//! Urgent data between the engine and a model of Linux's connection: no order of events
//! loses a byte or a mark, and none stops the connection.

use conformance::linux_urgent::{Case, Ending, Medium, Reader, run};
use smc_proto::config::UrgentFlags;

/// Seeds of each kind of run.
const SEEDS: u64 = 1_000;

fn cases(case: Case) -> impl Iterator<Item = Case> {
    (0..SEEDS).map(move |seed| Case { seed, ..case })
}

const USUAL: Case = Case {
    seed: 0,
    medium: Medium::Rdma,
    flags: UrgentFlags::Interoperate,
    reader: Reader::OutOfLine,
    failover: false,
};

#[track_caller]
fn all_complete(case: Case) {
    let wrong: Vec<_> = cases(case)
        .map(run)
        .filter(|end| *end != Ok(Ending::Complete))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {SEEDS}, the first: {:?}",
        wrong.len(),
        wrong.first()
    );
}

#[test]
fn a_linux_reader_gets_each_urgent_byte_out_of_line() {
    //= URG-009 test
    //= CASE-C22 test
    all_complete(USUAL);
}

#[test]
fn a_linux_reader_gets_each_urgent_byte_inline() {
    //= URG-009 test
    //= CASE-C22 test
    all_complete(Case {
        reader: Reader::Inline,
        ..USUAL
    });
}

#[test]
fn urgent_data_that_is_written_again_over_another_link_is_neither_lost_nor_forgotten() {
    //= URG-009 test
    //= FAILOVER-016 test
    for reader in [Reader::OutOfLine, Reader::Inline] {
        all_complete(Case {
            reader,
            failover: true,
            ..USUAL
        });
    }
}

#[test]
fn a_linux_reader_over_shared_memory_gets_each_urgent_byte() {
    //= D-060 test
    for reader in [Reader::OutOfLine, Reader::Inline] {
        all_complete(Case {
            reader,
            medium: Medium::SharedMemory,
            ..USUAL
        });
    }
}

#[test]
fn a_linux_reader_that_takes_the_byte_at_the_mark_is_the_only_one_to_stop_a_writer() {
    //= URG-005 test
    let mut stopped = 0;
    for case in cases(Case {
        reader: Reader::Careless,
        ..USUAL
    }) {
        match run(case) {
            Ok(Ending::Complete) => {}
            Ok(Ending::TakenAtTheMark) => stopped += 1,
            Err(fault) => panic!("{fault}"),
        }
    }
    assert!(stopped > 0, "the model knows of no such reader");
}

#[test]
fn by_the_flags_of_the_rfc_a_linux_reader_stops_the_writer_or_loses_the_byte() {
    //= URG-009 test
    let keep = Case {
        flags: UrgentFlags::Keep,
        ..USUAL
    };
    let failed = cases(keep).filter(|case| run(*case).is_err()).count();
    assert!(failed > SEEDS as usize / 20, "{failed} of {SEEDS}");
}
