//! The TCP connection behind the CLC messages.

use smc_capture::follow::TcpSign;

use crate::rule::{Judgement, rules, wrong};
use crate::view::TcpView;

rules! {
    /// Rules about what is not CLC.
    RULES: TcpView, Tcp;
    before "CLC-072" "tcp-data-in-rendezvous" needs "both SYNs and every message"
        says "No octets of the application come before the rendezvous has an outcome.";
    carried "CLOSE-035" "tcp-data-over-smc" needs "Accept and Confirm"
        says "A connection that SMC carries has no further octets on TCP, of CLC neither.";
}

fn data(view: &TcpView<'_>) -> Option<u64> {
    match view.sign {
        TcpSign::Data { bytes } => Some(bytes),
        _ => None,
    }
}

fn before(view: &TcpView<'_>) -> Judgement {
    let (Some(bytes), stream) = (data(view), view.stream) else {
        return Judgement::Fine;
    };
    let both = stream.accept.is_some() && stream.confirm.is_some();
    if !stream.has_options() || stream.is_declined() || both {
        return Judgement::Fine;
    }
    if stream.broken {
        return Judgement::Unknown;
    }
    wrong!("{} sends {bytes} octets that are no CLC", view.from)
}

fn carried(view: &TcpView<'_>) -> Judgement {
    match data(view) {
        Some(bytes) if view.stream.is_carried() => {
            wrong!(
                "{} sends {bytes} octets on TCP although SMC carries the connection",
                view.from
            )
        }
        _ => Judgement::Fine,
    }
}
