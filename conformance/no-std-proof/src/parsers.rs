//! Every parser, on the input itself: from each of its bytes on, and with each
//! message the engine could make of it cut off at every length.

use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::{ClcHeader, ClcMessage, MAX_LENGTH};
use smc_proto::wire::llc::{LLC_LENGTH, LlcMessage};
use smc_proto::wire::tcp_option::find_in_options;

use crate::Failure;
use crate::input::Input;
use crate::sink::{Sink, keep};
use crate::values::Any;

/// Shows bytes to all of them.
fn show(octets: &[u8], sink: &mut Sink) {
    keep(find_in_options(octets));
    match ClcHeader::parse(octets) {
        Ok(header) => {
            sink.hashed(&header, &header);
            keep(header.is_smcd());
        }
        Err(error) => sink.shown(&error, &error),
    }
    match ClcMessage::parse(octets) {
        Ok((message, _)) => {
            if let ClcMessage::Proposal(proposal) = &message {
                let (v4, v6) = (proposal.subnets.network, proposal.gid.0);
                keep(proposal.subnets.contain(v4.into()));
                keep(proposal.subnets.contain(v6.into()));
            }
            sink.display(&message);
        }
        Err(error) => sink.shown(&error, &error),
    }
    match LlcMessage::parse(octets, SmcVersion::V1) {
        Ok(message) => sink.display(&message),
        Err(error) => sink.shown(&error, &error),
    }
    crate::values_v2::parse(octets, sink);
    match Cdc::parse(octets) {
        Ok(message) => sink.display(&message),
        Err(error) => sink.shown(&error, &error),
    }
}

/// Of the input, and of messages made of it.
pub fn all(input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    for start in 0..=input.all().len() {
        if let Some(octets) = input.all().get(start..) {
            show(octets, sink);
        }
    }
    for _ in 0..32 {
        let message = ClcMessage::any(input);
        let mut buffer = [0; MAX_LENGTH];
        let Ok(length) = message.emit(&mut buffer) else {
            return Err(Failure::CodecDisagrees);
        };
        for cut in 0..=length {
            if let Some(octets) = buffer.get(..cut) {
                keep(ClcMessage::parse(octets));
            }
        }
        // One byte that is wrong, wherever it is.
        let at = input.below(length as u32) as usize;
        if let Some(octet) = buffer.get_mut(at) {
            *octet ^= input.octet();
        }
        show(&buffer, sink);

        let emitted = LlcMessage::any(input).emit_short(SmcVersion::V1);
        let mut octets = emitted.unwrap_or([0; LLC_LENGTH]);
        for cut in 0..=LLC_LENGTH {
            if let Some(octets) = octets.get(..cut) {
                keep(LlcMessage::parse(octets, SmcVersion::V1));
            }
        }
        if let Some(octet) = octets.get_mut(input.below(LLC_LENGTH as u32) as usize) {
            *octet ^= input.octet();
        }
        show(&octets, sink);

        let cdc = Cdc {
            producer_flags: Default::default(),
            connection_flags: Default::default(),
            ..Cdc::any(input)
        };
        if Cdc::parse(&cdc.emit()) != Ok(cdc) {
            return Err(Failure::CodecDisagrees);
        }
    }
    Ok(())
}
