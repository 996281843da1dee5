//! A decoder written from tables of offsets alone agrees with the codec on every
//! field of every message: of those the codec emits, and of captured ones.

use std::collections::BTreeMap;
use std::path::Path;

use conformance::fuzz::Reader;
use conformance::fuzz::clc::clc_message;
use conformance::fuzz::llc_v2::{Lists, emit, llc_v2_message};
use conformance::layout::{self, values};
use proptest::collection::vec as many;
use proptest::prelude::*;
use smc_capture::follow::{self, Content};
use smc_capture::reader::CaptureReader;
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};
use smc_proto::wire::llc::LlcMessage;

const CAPTURES: [&str; 6] = [
    "linux612-v1-onelink",
    "linux612-v1-twolinks",
    "linux612-v2-onelink",
    "linux612-v2-twolinks",
    "linux612-v2-decline-ueid",
    "linux612-smcd-v2-loopback",
];

fn emit_clc(message: &ClcMessage) -> Vec<u8> {
    let mut buffer = [0; MAX_LENGTH];
    let length = message.emit(&mut buffer).unwrap();
    buffer[..length].to_vec()
}

#[test]
fn both_decoders_agree_on_every_captured_message() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for name in CAPTURES {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("vectors")
            .join(format!("{name}.pcap.gz"));
        for item in follow::items(CaptureReader::open(file).unwrap()) {
            let item = item.unwrap();
            let (protocol, ours, theirs) = match &item.content {
                Content::Clc(message) => ("clc", values::clc(message), layout::clc(&item.bytes)),
                Content::Llc(message) if message.version() == SmcVersion::V2 => (
                    "llc v2",
                    values::llc_v2(&message.message()),
                    layout::llc_v2(&item.bytes),
                ),
                _ => continue,
            };
            assert_eq!(ours, theirs, "{name} frame {}", item.frame);
            let (messages, values) = counts.entry(protocol).or_default();
            *messages += 1;
            *values += ours.len();
        }
    }
    for (protocol, (messages, values)) in &counts {
        println!("{protocol}: {messages} messages, {values} values agree");
    }
    assert_eq!((counts["clc"].0, counts["llc v2"].0), (143, 166));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn both_decoders_agree_on_every_clc_message_we_emit(bytes in many(any::<u8>(), 0..700)) {
        let message = clc_message(&mut Reader::new(&bytes));
        let emitted = emit_clc(&message);
        prop_assert_eq!(layout::clc(&emitted), values::clc(&message));
        prop_assert_eq!(ClcMessage::parse(&emitted), Ok((message, emitted.len())));
    }

    #[test]
    fn both_decoders_agree_on_every_llc_message_we_emit(bytes in many(any::<u8>(), 0..400)) {
        let mut lists = Lists::default();
        let message = llc_v2_message(&mut Reader::new(&bytes), &mut lists);
        let emitted = emit(&message);
        prop_assert_eq!(layout::llc_v2(&emitted), values::llc_v2(&message));
        prop_assert_eq!(LlcMessage::parse(&emitted, SmcVersion::V2), Ok(message));
    }

    #[test]
    fn both_decoders_agree_on_the_head_of_a_dmb(mut head in any::<[u8; 32]>()) {
        head[0] = 0xfe;
        for (order, little) in [(Endianness::Little, true), (Endianness::Big, false)] {
            let message = CdcIsm::parse(&head, order).unwrap();
            prop_assert_eq!(layout::cdc_ism(&head, little), values::cdc_ism(&message));
            prop_assert_eq!(
                layout::cdc_ism(&message.emit(order), little),
                values::cdc_ism(&message)
            );
        }
    }
}
