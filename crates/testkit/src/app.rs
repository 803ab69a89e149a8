//! An application built from closures, for tests that need only one or two callbacks.
//!
//! ```
//! use transfix::{SessionNotice, tag};
//! use transfix_testkit::app::App;
//!
//! let (sender, unsent) = std::sync::mpsc::channel();
//! let app = App::new(|order, session| {
//!     let id = order.text(tag::CL_ORD_ID)?;
//!     session.send("8", |report| _ = report.str(tag::CL_ORD_ID, id))?;
//!     Ok(())
//! });
//! let app = app.on_notice(move |notice, _| {
//!     if let SessionNotice::Unsent(message) = notice {
//!         let _ = sender.send(message.why);
//!     }
//! });
//! # drop((app, unsent));
//! ```

use std::sync::Arc;

use transfix::{
    Application, BeforeSend, Body, BusinessReject, Direction, LogonAttempt, LogonRefusal, Message,
    Resend, SessionEvent, SessionNotice, SessionRef, SessionView,
};

type OnMessage = dyn FnMut(&Message<'_>, &mut SessionRef<'_>) -> Result<(), BusinessReject> + Send;
type JudgeLogon = dyn FnMut(&Message<'_>, &mut LogonAttempt<'_>) -> Result<(), LogonRefusal> + Send;
type FillLogon = dyn FnMut(&mut Body<'_>, &SessionView<'_>) + Send;
type OnEvent = dyn FnMut(SessionEvent<'_>, &mut SessionRef<'_>) + Send;
type OnNotice = dyn FnMut(SessionNotice<'_>, &SessionView<'_>) + Send;
type OnResend = dyn FnMut(&Message<'_>, &SessionView<'_>) -> Resend + Send;
type OnWire = dyn FnMut(Direction, &[u8], &SessionView<'_>) + Send;

/// An application whose callbacks are closures. A callback without a closure has the default
/// behavior of [`Application`].
pub struct App {
    on_message: Box<OnMessage>,
    judge_logon: Option<Box<JudgeLogon>>,
    fill_logon: Option<Box<FillLogon>>,
    on_event: Option<Box<OnEvent>>,
    on_notice: Option<Box<OnNotice>>,
    on_resend: Option<Box<OnResend>>,
    on_wire: Option<Box<OnWire>>,
    before_send: Option<Arc<dyn BeforeSend>>,
}

impl App {
    /// Returns an application that handles each message with `on_message`.
    pub fn new(
        on_message: impl FnMut(&Message<'_>, &mut SessionRef<'_>) -> Result<(), BusinessReject>
        + Send
        + 'static,
    ) -> Self {
        Self {
            on_message: Box::new(on_message),
            judge_logon: None,
            fill_logon: None,
            on_event: None,
            on_notice: None,
            on_resend: None,
            on_wire: None,
            before_send: None,
        }
    }

    /// Returns an application that accepts every message and sends no answer.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_, _| Ok(()))
    }

    /// Returns an application that rejects every message as unsupported.
    #[must_use]
    pub fn rejecting() -> Self {
        Self::new(|_, _| Err(BusinessReject::unsupported()))
    }

    /// Sets the closure that accepts or refuses each Logon(A) of the counterparty.
    #[must_use]
    pub fn judge_logon(
        mut self,
        judge: impl FnMut(&Message<'_>, &mut LogonAttempt<'_>) -> Result<(), LogonRefusal>
        + Send
        + 'static,
    ) -> Self {
        self.judge_logon = Some(Box::new(judge));
        self
    }

    /// Sets the closure that adds fields to our Logon(A).
    #[must_use]
    pub fn fill_logon(
        mut self,
        fill: impl FnMut(&mut Body<'_>, &SessionView<'_>) + Send + 'static,
    ) -> Self {
        self.fill_logon = Some(Box::new(fill));
        self
    }

    /// Sets the closure that receives the session's events.
    #[must_use]
    pub fn on_event(
        mut self,
        on_event: impl FnMut(SessionEvent<'_>, &mut SessionRef<'_>) + Send + 'static,
    ) -> Self {
        self.on_event = Some(Box::new(on_event));
        self
    }

    /// Sets the closure that receives the session's notices.
    #[must_use]
    pub fn on_notice(
        mut self,
        on_notice: impl FnMut(SessionNotice<'_>, &SessionView<'_>) + Send + 'static,
    ) -> Self {
        self.on_notice = Some(Box::new(on_notice));
        self
    }

    /// Sets the closure that decides whether each requested message is resent.
    #[must_use]
    pub fn on_resend(
        mut self,
        on_resend: impl FnMut(&Message<'_>, &SessionView<'_>) -> Resend + Send + 'static,
    ) -> Self {
        self.on_resend = Some(Box::new(on_resend));
        self
    }

    /// Sets the closure that receives each frame that the connection carries.
    #[must_use]
    pub fn on_wire(
        mut self,
        on_wire: impl FnMut(Direction, &[u8], &SessionView<'_>) + Send + 'static,
    ) -> Self {
        self.on_wire = Some(Box::new(on_wire));
        self
    }

    /// Sets the hook that sees each message before the message is sent.
    #[must_use]
    pub fn before_send(mut self, hook: Arc<dyn BeforeSend>) -> Self {
        self.before_send = Some(hook);
        self
    }
}

impl Application for App {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        (self.on_message)(message, session)
    }

    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        self.judge_logon.as_mut().map_or(Ok(()), |judge| judge(logon, attempt))
    }

    fn fill_logon(&mut self, logon: &mut Body<'_>, session: &SessionView<'_>) {
        if let Some(fill) = &mut self.fill_logon {
            fill(logon, session);
        }
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let Some(on_event) = &mut self.on_event {
            on_event(event, session);
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        if let Some(on_notice) = &mut self.on_notice {
            on_notice(notice, session);
        }
    }

    fn on_resend(&mut self, message: &Message<'_>, session: &SessionView<'_>) -> Resend {
        self.on_resend.as_mut().map_or(Resend::Send, |on_resend| on_resend(message, session))
    }

    fn before_send(&self) -> Option<Arc<dyn BeforeSend>> {
        self.before_send.clone()
    }

    fn wants_wire(&self) -> bool {
        self.on_wire.is_some()
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], session: &SessionView<'_>) {
        if let Some(on_wire) = &mut self.on_wire {
            on_wire(direction, frame, session);
        }
    }
}
