//! What an application does and sees.

use super::Line;
use crate::scripts::parsed::{AppAct, AppSees, Data};
use crate::scripts::text::Unclear;

const DOES: &str = "one of connect, listen, accept, decline, write, urgent, shutdown, close, abort, \
     delete was expected";
const SEES: &str = "one of proposed, established, fallback, closed, read, readable, room, end, \
     urgent, tcp, link, group was expected";

impl Line<'_> {
    pub(super) fn app_act(&mut self) -> Result<AppAct, Unclear> {
        let token = self.take(DOES)?;
        Ok(match token {
            "connect" => AppAct::Connect(self.settings()?),
            "listen" => AppAct::Listen(self.settings()?),
            "accept" => AppAct::Accept,
            "decline" => AppAct::Decline(self.number("a code was expected")?),
            "write" => AppAct::Write(self.data()?),
            "urgent" => AppAct::Urgent(self.data()?),
            "shutdown" if self.took("read") => AppAct::ShutdownRead,
            "shutdown" => AppAct::Shutdown,
            "close" => AppAct::Close,
            "abort" => AppAct::Abort,
            "delete" if self.took("group") => AppAct::DeleteGroup,
            "delete" => {
                if !self.took("link") {
                    return self.expected("group or link was expected");
                }
                AppAct::DeleteLink(self.number("the number of a link was expected")?)
            }
            _ => return Err(self.unclear(self.taken(), DOES)),
        })
    }

    pub(super) fn app_sees(&mut self) -> Result<AppSees, Unclear> {
        let token = self.take(SEES)?;
        Ok(match token {
            "proposed" => AppSees::Proposed,
            "established" => AppSees::Established,
            "fallback" => {
                let code = self.number("a code was expected")?;
                let peer = if self.took("peer") {
                    Some(self.number("the peer's code was expected")?)
                } else {
                    None
                };
                AppSees::FellBack(code, peer)
            }
            "closed" => AppSees::Closed(self.take("a reason was expected")?.to_owned()),
            "read" => AppSees::Read(self.data()?),
            "readable" => AppSees::Readable(self.number("a number of octets was expected")?),
            "room" => AppSees::Room(self.number("a number of octets was expected")?),
            "end" => AppSees::End,
            "urgent" => {
                let before = self.number("how many octets stand before it was expected")?;
                match self.data()? {
                    Data::Text(text) if text.len() == 1 => AppSees::Urgent(before, text[0]),
                    _ => return Err(self.unclear(self.taken(), "one octet was expected")),
                }
            }
            "tcp" => AppSees::Tcp(self.raw_or_text()?),
            "link" => {
                let number = self.number("the number of a link was expected")?;
                let what = "up or down was expected";
                match self.take(what)? {
                    "up" => AppSees::LinkUp(number),
                    "down" => AppSees::LinkDown(number),
                    _ => return Err(self.unclear(self.taken(), what)),
                }
            }
            "group" if self.took("down") => AppSees::GroupDown,
            _ => return Err(self.unclear(self.taken(), SEES)),
        })
    }
}
