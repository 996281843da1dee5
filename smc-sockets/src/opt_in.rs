//! Whether a stack opts in to SMC on a connection that does not pair: by its policy, the TCP option,
//! and the denylist of servers that misread a Proposal.
//!
//! ```text
//!   client   before_connect: may the SYN have the option?   after_connect: did the SYN-ACK?
//!   server   before_listen: may SYN-ACKs have it?           accepted: did the SYN?
//! ```
//!
//! Both sides end with a [`Verdict`]: whether CLC follows over TCP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::carrier::{Cause, OptionMissing};
use crate::descriptors;
use crate::discovery::{Discovery, OptionExchange, OptionNotSent, discover};
use crate::policy::{Policy, Rule, UseOption};
use crate::shunned::Shunned;
use crate::tcp_option::{Marks, TcpOption};

/// By what a stack opts in.
pub(crate) struct OptIn {
    pub(crate) policy: Policy,
    pub(crate) shunned: Shunned,
    /// Marks that another process has handed on.
    given: Option<Arc<Marks>>,
    /// The BPF program of this process, attached when it is first needed.
    own: OnceLock<Result<TcpOption, OptionMissing>>,
    /// Whether there are RNICs to offer.
    has_rnics: bool,
    /// Whether every peer is taken to speak SMC.
    assumes_all: bool,
}

/// How far a client has opted in before it connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClientOptIn {
    /// Whether the policy permits SMC with the server.
    pub(crate) permitted: Result<(), Rule>,
    /// Whether the SYN will have the option.
    option: Result<(), OptionNotSent>,
}

/// Whether CLC messages are exchanged on a connection that is not paired.
pub(crate) struct Verdict {
    /// How the peer is known to speak SMC; otherwise why the connection is TCP.
    pub(crate) discovery: Result<Discovery, Cause>,
    /// Why this side declines, although the peer speaks SMC: it expects CLC, and gets a Decline.
    pub(crate) declines: Option<Cause>,
}

impl ClientOptIn {
    /// Whether the SYN has no option because the endpoint has no room.
    pub(crate) fn lacks_room(&self) -> bool {
        self.option == Err(OptionNotSent::Full)
    }
}

impl OptIn {
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

    /// The marks of sockets that send the option. Attaches the BPF program if need be.
    ///
    /// # Errors
    /// Why the option is not sent.
    pub(crate) fn marks(&self) -> Result<&Marks, OptionNotSent> {
        self.wants_option()?;
        if let Some(given) = &self.given {
            return Ok(given);
        }
        let attached = self.attached().map(TcpOption::marks);
        attached.map_err(OptionNotSent::Missing)
    }

    /// Whether the option is to be sent.
    ///
    /// # Errors
    /// Why not.
    fn wants_option(&self) -> Result<(), OptionNotSent> {
        let wanted = match self.policy.tcp_option {
            UseOption::Never => return Err(OptionNotSent::Missing(OptionMissing::Never)),
            UseOption::Always => true,
            UseOption::Auto => self.has_rnics,
        };
        match wanted {
            true => Ok(()),
            false => Err(OptionNotSent::NoDevice),
        }
    }

    /// The marks of sockets that may have sent the option: those that another process has handed on,
    /// whatever this one sends itself, or those of this process. Attaches nothing, and does not wait
    /// for another thread that does.
    fn known_marks(&self) -> Option<&Marks> {
        let own = || Some(self.own.get()?.as_ref().ok()?.marks());
        self.given.as_deref().or_else(own)
    }

    /// The marks of a BPF program that this process has attached, for a child that it was forked to;
    /// `None` if it has attached none.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn shared_marks(&self) -> io::Result<Option<Arc<Marks>>> {
        let Some(Ok(own)) = self.own.get() else {
            return Ok(None);
        };
        let map = descriptors::keep(|| rustix::io::fcntl_dupfd_cloexec(own.marks(), 0))?;
        Ok(Some(Arc::new(Marks::try_from(map)?)))
    }

    /// Whether the option could be sent, if there were an RNIC to offer.
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

    /// The BPF program of this process, attached when it is first needed.
    fn attached(&self) -> Result<&TcpOption, OptionMissing> {
        let attach = || TcpOption::attach().map_err(|error| OptionMissing::from(&error));
        let own = self.own.get_or_init(attach);
        own.as_ref().map_err(|missing| *missing)
    }

    /// Opts in before a socket connects, as far as the policy, the denylist and the `room` of the
    /// endpoint permit: its SYN then has the option.
    pub(crate) fn before_connect(&self, tcp: impl AsFd, to: SocketAddr, room: bool) -> ClientOptIn {
        let permitted = self.policy.connecting(to);
        let option = match permitted {
            // The connection will be TCP.
            Err(_) => Err(OptionNotSent::Refused),
            Ok(()) if !room => Err(OptionNotSent::Full),
            Ok(()) if self.is_shunned(to) => Err(OptionNotSent::Shunned),
            Ok(()) => self.marks().and_then(|marks| {
                let missing = |error: io::Error| {
                    let number = error.raw_os_error().unwrap_or(0);
                    OptionNotSent::Missing(OptionMissing::Refused(number))
                };
                marks.opt_in(tcp).map_err(missing)
            }),
        };
        ClientOptIn { permitted, option }
    }

    /// Whether CLC may follow on a connection that is not paired.
    pub(crate) fn may_negotiate(&self, to: SocketAddr, client_opt_in: &ClientOptIn) -> bool {
        client_opt_in.option.is_ok() || self.assumes(to.ip(), to.port())
    }

    /// Does not opt in, for a second connection to a server that has misread a Proposal.
    pub(crate) fn without_option(&self, to: SocketAddr) -> ClientOptIn {
        ClientOptIn {
            permitted: self.policy.connecting(to),
            option: Err(OptionNotSent::Shunned),
        }
    }

    /// Verdict on a connection that this side has made, once TCP has connected.
    pub(crate) fn after_connect(
        &self,
        tcp: impl AsFd,
        to: SocketAddr,
        client_opt_in: ClientOptIn,
    ) -> Verdict {
        let asked = match client_opt_in.option {
            Ok(()) => self.peers_option(tcp),
            Err(why) => OptionExchange::NotSent(why),
        };
        let discovery = discover(asked, self.assumes(to.ip(), to.port()));
        let refused = client_opt_in.permitted.err().map(Cause::Policy);
        verdict(discovery, refused)
    }

    /// Opts in before a socket listens: its SYN-ACKs then have the option.
    ///
    /// # Errors
    /// Why they do not have it.
    pub(crate) fn before_listen(&self, tcp: impl AsFd, port: u16) -> Result<(), OptionNotSent> {
        // Port 0: the policy cannot rule out the one that the kernel will choose.
        if port != 0 && self.policy.listening(port).is_err() {
            return Err(OptionNotSent::Refused);
        }
        let missing = |error: io::Error| {
            let number = error.raw_os_error().unwrap_or(0);
            OptionNotSent::Missing(OptionMissing::Refused(number))
        };
        self.marks()?.opt_in(tcp).map_err(missing)
    }

    /// Verdict on a connection that a listener has accepted. `listener` is whether its SYN-ACKs have
    /// the option.
    pub(crate) fn accepted(
        &self,
        tcp: impl AsFd,
        port: u16,
        client: IpAddr,
        listener: Result<(), OptionNotSent>,
    ) -> Verdict {
        let asked = match listener {
            Ok(()) => self.peers_option(tcp),
            Err(why) => OptionExchange::NotSent(why),
        };
        let discovery = discover(asked, self.assumes(client, port)).map_err(|cause| match cause {
            // This side would have sent the option back: it is the client that did not send it.
            Cause::NoOption => Cause::NotOffered,
            cause => cause,
        });
        let refused = self.policy.accepting(port, client);
        verdict(discovery, refused.err().map(Cause::Policy))
    }

    /// Whether the peer has sent the option on a connection on which this side did.
    fn peers_option(&self, tcp: impl AsFd) -> OptionExchange {
        match self.has_asked(tcp) {
            true => OptionExchange::Answered,
            false => OptionExchange::Silent,
        }
    }

    /// Whether both ends of a connection have sent the option, as far as this process can know.
    pub(crate) fn has_asked(&self, tcp: impl AsFd) -> bool {
        let verdict = self.known_marks().map(|marks| marks.verdict(tcp));
        matches!(verdict, Some(Ok(true)))
    }

    /// Whether a peer is taken to speak SMC without the option.
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

/// A connection that the policy refuses gets a Decline if the peer expects CLC, and is TCP otherwise.
fn verdict(discovery: Result<Discovery, Cause>, refused: Option<Cause>) -> Verdict {
    match (discovery, refused) {
        (Ok(known), declines) => Verdict {
            discovery: Ok(known),
            declines,
        },
        (Err(cause), refused) => Verdict {
            discovery: Err(refused.unwrap_or(cause)),
            declines: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn opt_in(policy: &str, has_rnics: bool) -> OptIn {
        OptIn::new(Policy::parse(policy).unwrap(), None, has_rnics, false)
    }

    fn server() -> SocketAddr {
        ([192, 0, 2, 1], 5000).into()
    }

    /// A socket that has not opted in.
    fn plain() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn what_is_not_permitted_sends_no_option_and_names_its_rule() {
        let opt_in = opt_in(
            "exclude = [\"192.0.2.0/24\"]\ntcp-option = \"always\"",
            true,
        );
        let client_opt_in = opt_in.before_connect(plain(), server(), true);
        assert_eq!(client_opt_in.option, Err(OptionNotSent::Refused));
        let verdict = opt_in.after_connect(plain(), server(), client_opt_in);
        let cause = verdict.discovery.unwrap_err();
        assert!(matches!(cause, Cause::Policy(Rule::Excluded(_))));
        // No program is attached for it.
        assert!(opt_in.own.get().is_none());
    }

    #[test]
    fn without_anything_to_offer_the_option_is_not_sent() {
        let opt_in = opt_in("", false);
        let client_opt_in = opt_in.before_connect(plain(), server(), true);
        let verdict = opt_in.after_connect(plain(), server(), client_opt_in);
        assert_eq!(verdict.discovery, Err(Cause::NoDevice));
        assert!(opt_in.own.get().is_none());
        let listening = opt_in.before_listen(plain(), 5000);
        assert_eq!(listening, Err(OptionNotSent::NoDevice));
    }

    #[test]
    fn a_policy_may_forbid_the_option_and_assume_instead() {
        let opt_in = opt_in(
            "tcp-option = \"never\"\n\
             assume-smc = [{ peers = [\"192.0.2.1\"], ports = [5000] }]",
            true,
        );
        let known = |to: SocketAddr| {
            let client_opt_in = opt_in.before_connect(plain(), to, true);
            opt_in.after_connect(plain(), to, client_opt_in).discovery
        };
        assert_eq!(known(server()), Ok(Discovery::Assumed));
        let missing = Cause::CannotAsk(OptionMissing::Never);
        assert_eq!(known(([192, 0, 2, 2], 5000).into()), Err(missing));
        let client = server().ip();
        let listener = opt_in.before_listen(plain(), 5000);
        let verdict = opt_in.accepted(plain(), 5000, client, listener);
        assert_eq!(verdict.discovery, Ok(Discovery::Assumed));
        let verdict = opt_in.accepted(plain(), 5001, client, listener);
        assert_eq!(verdict.discovery, Err(missing));
    }

    /// The client has the same policy but for the exclusion, and sends a Proposal.
    #[test]
    fn a_peer_that_expects_clc_gets_a_decline() {
        let opt_in = opt_in(
            "tcp-option = \"never\"\nexclude = [\"192.0.2.1\"]\n\
             assume-smc = [{ peers = [\"192.0.2.1\"], ports = [5000] }]",
            true,
        );
        let listener = opt_in.before_listen(plain(), 5000);
        let verdict = opt_in.accepted(plain(), 5000, server().ip(), listener);
        assert_eq!(verdict.discovery, Ok(Discovery::Assumed));
        let declines = verdict.declines.unwrap();
        assert!(matches!(declines, Cause::Policy(Rule::Excluded(_))));
    }

    #[test]
    fn a_server_that_misread_a_proposal_gets_no_option() {
        let opt_in = opt_in("tcp-option = \"always\"", true);
        opt_in.shunned.remember(server(), Instant::now());
        let client_opt_in = opt_in.before_connect(plain(), server(), true);
        let verdict = opt_in.after_connect(plain(), server(), client_opt_in);
        assert_eq!(verdict.discovery, Err(Cause::Shunned));
    }
}
