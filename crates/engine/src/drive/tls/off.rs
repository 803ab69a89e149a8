//! The types of `tls` in a build without the feature: no value of them can be constructed.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use transfix_settings::SessionSettings;
use transfix_transport::Stream;

use crate::drive::certificates::OwnCertificates;
use crate::drive::tls::Doubt;
use crate::error::EngineError;

/// The TLS side of an acceptor.
pub(crate) struct TlsListener(Infallible);

impl TlsListener {
    pub(crate) const fn of(
        _: &SessionSettings,
        _: &Arc<OwnCertificates>,
    ) -> Result<Option<Self>, EngineError> {
        Ok(None)
    }

    pub(crate) const fn accept(&self, _: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        match self.0 {}
    }
}

/// The TLS side of an initiator.
pub(crate) struct Way(Infallible);

impl Way {
    pub(crate) const fn of(
        _: &SessionSettings,
        _: &str,
        _: &Arc<OwnCertificates>,
    ) -> Result<Option<Self>, EngineError> {
        Ok(None)
    }

    pub(crate) const fn connect(&self, _: Box<dyn Stream>) -> io::Result<Handshake> {
        match self.0 {}
    }
}

/// A TLS handshake in progress.
pub(crate) struct Handshake(Infallible);

impl Handshake {
    pub(crate) const fn advance(&mut self) -> io::Result<bool> {
        match self.0 {}
    }

    pub(crate) const fn finish(self) -> Box<dyn Stream> {
        match self.0 {}
    }
}

pub(crate) const fn review(_: &SessionSettings) -> Result<Vec<Doubt>, EngineError> {
    Ok(Vec::new())
}

/// The certificate of a counterparty.
pub(crate) struct PeerCertificate(Infallible);

impl PeerCertificate {
    pub(crate) const fn is(&self, _: &str) -> bool {
        match self.0 {}
    }
}

impl std::fmt::Display for PeerCertificate {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {}
    }
}

pub(crate) const fn certificate_of(_: &dyn Stream) -> Option<PeerCertificate> {
    None
}
