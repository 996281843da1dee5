//! What a stack asks before it speaks SMC: its policy, the TCP option, and what it
//! remembers of servers.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::carrier::{Cause, OptionMissing};
use crate::discovery::{Asked, Discovery, NotAsked, discover};
use crate::policy::{Policy, Rule, UseOption};
use crate::shunned::Shunned;
use crate::tcp_option::{Marks, TcpOption};

/// What a stack asks.
pub(crate) struct Asking {
    pub(crate) policy: Policy,
    pub(crate) shunned: Shunned,
    /// Handed on by another process.
    given: Option<Arc<Marks>>,
    /// Attached when it is first wanted.
    own: OnceLock<Result<TcpOption, OptionMissing>>,
    /// There are RNICs to offer.
    has_rnics: bool,
    /// Every peer is taken to speak SMC.
    assumes_all: bool,
}

/// What a client has asked before it connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wish {
    /// The policy's word.
    pub(crate) permitted: Result<(), Rule>,
    /// Whether the SYN has the option.
    option: Result<(), NotAsked>,
}

/// Whether CLC is spoken on a connection that is not paired.
pub(crate) struct Verdict {
    /// How it is known that the peer speaks it; else what TCP is due to.
    pub(crate) speaks: Result<Discovery, Cause>,
    /// The peer was promised CLC, and gets a Decline because of this.
    pub(crate) declines: Option<Cause>,
}

impl Wish {
    /// Whether no peer is asked because there is no room.
    pub(crate) fn lacks_room(&self) -> bool {
        self.option == Err(NotAsked::Full)
    }
}

impl Asking {
    pub(crate) fn new(
        policy: Policy,
        given: Option<Arc<Marks>>,
        has_rnics: bool,
        assumes_all: bool,
    ) -> Self {
        Self {
            shunned: Shunned::new(policy.shun),
            policy,
            given,
            own: OnceLock::new(),
            has_rnics,
            assumes_all,
        }
    }

    /// The marks by which sockets ask for the option, attached if need be.
    ///
    /// # Errors
    /// Why it is not asked for.
    pub(crate) fn marks(&self) -> Result<&Marks, NotAsked> {
        let wanted = match self.policy.tcp_option {
            UseOption::Never => return Err(NotAsked::Missing(OptionMissing::Never)),
            UseOption::Always => true,
            UseOption::Auto => self.has_rnics,
        };
        if !wanted {
            return Err(NotAsked::NoDevice);
        }
        if let Some(given) = &self.given {
            return Ok(given);
        }
        let attached = self.attached().map(TcpOption::marks);
        attached.map_err(NotAsked::Missing)
    }

    /// Whether the option could be asked for, if there were something to offer.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn could_ask(&self) -> Result<(), OptionMissing> {
        match (self.policy.tcp_option, &self.given) {
            (UseOption::Never, _) => Err(OptionMissing::Never),
            (_, Some(_)) => Ok(()),
            (_, None) => self.attached().map(drop),
        }
    }

    /// The program of this process, attached when it is first wanted.
    fn attached(&self) -> Result<&TcpOption, OptionMissing> {
        let attach = || TcpOption::attach().map_err(|error| OptionMissing::from(&error));
        let own = self.own.get_or_init(attach);
        own.as_ref().map_err(|missing| *missing)
    }

    /// Before a socket connects. A table without room asks no peer.
    pub(crate) fn before_connect(&self, tcp: impl AsFd, to: SocketAddr, room: bool) -> Wish {
        let permitted = self.policy.connecting(to);
        let option = match permitted {
            // No peer is asked for what will not be.
            Err(_) => Err(NotAsked::Refused),
            Ok(()) if !room => Err(NotAsked::Full),
            Ok(()) if self.is_shunned(to) => Err(NotAsked::Shunned),
            Ok(()) => self.marks().and_then(|marks| {
                let missing = |error: std::io::Error| {
                    let number = error.raw_os_error().unwrap_or(0);
                    NotAsked::Missing(OptionMissing::Refused(number))
                };
                marks.opt_in(tcp).map_err(missing)
            }),
        };
        Wish { permitted, option }
    }

    /// Whether a connection that is not paired may come to CLC, with what was asked before.
    pub(crate) fn may_ask(&self, to: SocketAddr, wish: &Wish) -> bool {
        wish.option.is_ok() || self.assumes(to.ip(), to.port())
    }

    /// State of a socket that asks no peer, because its server does not understand.
    pub(crate) fn without_option(&self, to: SocketAddr) -> Wish {
        Wish {
            permitted: self.policy.connecting(to),
            option: Err(NotAsked::Shunned),
        }
    }

    /// Verdict on a connection that this side has made.
    pub(crate) fn after_connect(&self, tcp: impl AsFd, to: SocketAddr, wish: Wish) -> Verdict {
        let asked = match wish.option {
            Ok(()) => self.answer_on(tcp),
            Err(why) => Asked::Not(why),
        };
        let speaks = discover(asked, self.assumes(to.ip(), to.port()));
        let refused = wish.permitted.err().map(Cause::Policy);
        verdict(speaks, refused)
    }

    /// Before a socket listens: whether its SYN-ACKs will have the option.
    pub(crate) fn before_listen(&self, tcp: impl AsFd, port: u16) -> Result<(), NotAsked> {
        // A port that the kernel is yet to choose is not known to be left out.
        if port != 0 && self.policy.listening(port).is_err() {
            return Err(NotAsked::Refused);
        }
        let missing = |error: std::io::Error| {
            let number = error.raw_os_error().unwrap_or(0);
            NotAsked::Missing(OptionMissing::Refused(number))
        };
        self.marks()?.opt_in(tcp).map_err(missing)
    }

    /// Of a connection that a listener has accepted.
    pub(crate) fn accepted(
        &self,
        tcp: impl AsFd,
        port: u16,
        client: IpAddr,
        listener: Result<(), NotAsked>,
    ) -> Verdict {
        let asked = match listener {
            Ok(()) => self.answer_on(tcp),
            Err(why) => Asked::Not(why),
        };
        let speaks = discover(asked, self.assumes(client, port)).map_err(|cause| match cause {
            // This side would have answered.
            Cause::NoOption => Cause::NotOffered,
            cause => cause,
        });
        let refused = self.policy.accepting(port, client);
        verdict(speaks, refused.err().map(Cause::Policy))
    }

    fn answer_on(&self, tcp: impl AsFd) -> Asked {
        match self.marks().map(|marks| marks.verdict(tcp)) {
            Ok(Ok(true)) => Asked::Answered,
            _ => Asked::Silent,
        }
    }

    pub(crate) fn assumes(&self, peer: IpAddr, port: u16) -> bool {
        self.assumes_all || self.policy.assumes(peer, port)
    }

    /// Whether any peer is taken to speak SMC.
    pub(crate) fn assumes_any(&self) -> bool {
        self.assumes_all || !self.policy.assume_smc.is_empty()
    }

    fn is_shunned(&self, server: SocketAddr) -> bool {
        self.shunned.until(server, Instant::now()).is_some()
    }
}

/// What is refused was promised, or it was not.
fn verdict(speaks: Result<Discovery, Cause>, refused: Option<Cause>) -> Verdict {
    match (speaks, refused) {
        (Ok(known), declines) => Verdict {
            speaks: Ok(known),
            declines,
        },
        (Err(cause), refused) => Verdict {
            speaks: Err(refused.unwrap_or(cause)),
            declines: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn asking(policy: &str, has_rnics: bool) -> Asking {
        Asking::new(Policy::parse(policy).unwrap(), None, has_rnics, false)
    }

    fn server() -> SocketAddr {
        ([192, 0, 2, 1], 5000).into()
    }

    /// A socket without a request.
    fn plain() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn what_is_not_permitted_is_not_asked_for_and_names_its_rule() {
        let asking = asking(
            "exclude = [\"192.0.2.0/24\"]\ntcp-option = \"always\"",
            true,
        );
        let wish = asking.before_connect(plain(), server(), true);
        assert_eq!(wish.option, Err(NotAsked::Refused));
        let verdict = asking.after_connect(plain(), server(), wish);
        let cause = verdict.speaks.unwrap_err();
        assert!(matches!(cause, Cause::Policy(Rule::Excluded(_))));
        // No process is attached for it.
        assert!(asking.own.get().is_none());
    }

    #[test]
    fn without_anything_to_offer_nobody_is_asked() {
        let asking = asking("", false);
        let wish = asking.before_connect(plain(), server(), true);
        let verdict = asking.after_connect(plain(), server(), wish);
        assert_eq!(verdict.speaks, Err(Cause::NoDevice));
        assert!(asking.own.get().is_none());
        let listening = asking.before_listen(plain(), 5000);
        assert_eq!(listening, Err(NotAsked::NoDevice));
    }

    #[test]
    fn a_policy_may_forbid_the_option_and_assume_instead() {
        let asking = asking(
            "tcp-option = \"never\"\n\
             assume-smc = [{ peers = [\"192.0.2.1\"], ports = [5000] }]",
            true,
        );
        let known = |to: SocketAddr| {
            let wish = asking.before_connect(plain(), to, true);
            asking.after_connect(plain(), to, wish).speaks
        };
        assert_eq!(known(server()), Ok(Discovery::Assumed));
        let missing = Cause::CannotAsk(OptionMissing::Never);
        assert_eq!(known(([192, 0, 2, 2], 5000).into()), Err(missing));
        let client = server().ip();
        let listener = asking.before_listen(plain(), 5000);
        let verdict = asking.accepted(plain(), 5000, client, listener);
        assert_eq!(verdict.speaks, Ok(Discovery::Assumed));
        let verdict = asking.accepted(plain(), 5001, client, listener);
        assert_eq!(verdict.speaks, Err(missing));
    }

    /// The client has the same policy but for the exclusion, and sends a Proposal.
    #[test]
    fn who_was_promised_clc_gets_a_decline() {
        let asking = asking(
            "tcp-option = \"never\"\nexclude = [\"192.0.2.1\"]\n\
             assume-smc = [{ peers = [\"192.0.2.1\"], ports = [5000] }]",
            true,
        );
        let listener = asking.before_listen(plain(), 5000);
        let verdict = asking.accepted(plain(), 5000, server().ip(), listener);
        assert_eq!(verdict.speaks, Ok(Discovery::Assumed));
        let declines = verdict.declines.unwrap();
        assert!(matches!(declines, Cause::Policy(Rule::Excluded(_))));
    }

    #[test]
    fn a_server_that_misunderstood_is_not_asked() {
        let asking = asking("tcp-option = \"always\"", true);
        asking.shunned.remember(server(), Instant::now());
        let wish = asking.before_connect(plain(), server(), true);
        let verdict = asking.after_connect(plain(), server(), wish);
        assert_eq!(verdict.speaks, Err(Cause::Shunned));
    }
}
