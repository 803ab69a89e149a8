//! The application of a gateway, which answers each order and keeps notes.

use std::path::Path;

use transfix::{Application, BusinessReject, Message, SessionRef, tag};

use super::history::{Notes, Seen};

/// Answers each order with a report, whose ExecID(17) is new in each process.
#[derive(Clone)]
pub(super) struct Venue {
    run: String,
    reports: u64,
    notes: Notes,
}

impl Venue {
    pub(super) fn noting_in(path: &Path) -> Result<Self, String> {
        let run = format!("{}.{}", std::process::id(), transfix::clock::now().utc.0);
        Ok(Self { run, reports: 0, notes: Notes::open(path)? })
    }
}

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let (id, seen) = (order.text(tag::CL_ORD_ID)?, Seen::of(order)?);
        // An order without its answer is refused, so that the counterparty sees the fault.
        self.notes
            .received(&seen)
            .map_err(|_| BusinessReject::other("the order cannot be noted"))?;
        self.reports += 1;
        let exec_id = format!("{}-{}", self.run, self.reports);
        let sent = session.send("8", |report| {
            report.str(tag::ORDER_ID, id).str(tag::CL_ORD_ID, id).str(tag::EXEC_ID, &exec_id);
        });
        let seq = sent.map_err(|_| BusinessReject::other("the answer cannot be sent"))?;
        let report = Seen::sent(seq, seen.order(), &exec_id);
        self.notes.sent(&report).map_err(|_| BusinessReject::other("the answer cannot be noted"))
    }
}
