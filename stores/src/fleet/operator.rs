//! The requests of an operator to the gateways of a fleet.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use transfix::{FleetSettings, StoreError};

use super::gateway::{LOGOUT, Reply, ask, subject_of_all};
use super::request::{Answer, GatewayStatus, Request};
use super::wrong;
use crate::failed;
use crate::jetstream::JetStream;

/// Maximum time for a request that logs sessions out.
const PATIENCE: Duration = Duration::from_secs(4 * LOGOUT.as_secs());

/// An operator of a fleet, who sees its gateways and moves sessions between them.
pub struct FleetOperator {
    brokers: JetStream,
    answer: Duration,
}

impl FleetOperator {
    /// Connects to the brokers.
    ///
    /// # Errors
    /// As [`Fleet::join`](super::Fleet::join).
    pub fn connect(settings: &FleetSettings) -> Result<Self, StoreError> {
        Ok(Self { brokers: super::connect(settings)?, answer: settings.answer })
    }

    /// As [`FleetOperator::connect`], and creates the stream if it does not exist: once, before the
    /// first gateway starts.
    ///
    /// # Errors
    /// As [`Fleet::join`](super::Fleet::join).
    pub fn create(settings: &FleetSettings) -> Result<Self, StoreError> {
        Ok(Self { brokers: super::access::create(settings)?, answer: settings.answer })
    }

    /// Returns the gateways that answer in time, by name.
    ///
    /// # Errors
    /// [`StoreError::Own`] if the brokers do not answer, or if the state of a gateway is longer
    /// than `max_payload` of the brokers.
    pub fn gateways(&self) -> Result<Vec<GatewayStatus>, StoreError> {
        let client = self.brokers.client();
        // Without a connection, the client would keep the request for later.
        if client.connection_state() != async_nats::connection::State::Connected {
            return Err(wrong("no broker is connected".to_owned()));
        }
        self.brokers.block_on(async {
            let inbox = client.new_inbox();
            let mut answers = client.subscribe(inbox.clone()).await.map_err(failed)?;
            let text = serde_json::to_vec(&Request::Status).map_err(failed)?;
            let subject = subject_of_all(self.brokers.name());
            client.publish_with_reply(subject, inbox, text.into()).await.map_err(failed)?;
            let (mut gateways, mut failure) = (Vec::new(), None);
            let collect = async {
                while let Some(message) = answers.next().await {
                    match serde_json::from_slice(&message.payload) {
                        Ok(Answer::Status(status)) => gateways.push(status),
                        Ok(Answer::Failed { why }) => failure = Some(why),
                        _ => {}
                    }
                }
            };
            // The number of gateways is unknown, so the end of the time is the end of the answers.
            let _ = tokio::time::timeout(self.answer, collect).await;
            if let Some(why) = failure {
                return Err(wrong(format!("the status of a gateway: {why}")));
            }
            gateways.sort_by(|one, other| one.gateway.cmp(&other.gateway));
            Ok(gateways)
        })
    }

    /// Logs out the sessions of a gateway, so that other gateways take them over. The gateway takes
    /// none over until [`FleetOperator::resume`].
    ///
    /// # Errors
    /// [`StoreError::Own`] if the gateway does not answer. Also if a session did not log out; the
    /// gateway is drained all the same.
    pub fn drain(&self, gateway: &str) -> Result<(), StoreError> {
        self.request(gateway, &Request::Drain)
    }

    /// Lets a drained gateway take sessions over again.
    ///
    /// # Errors
    /// [`StoreError::Own`] if the gateway does not answer.
    pub fn resume(&self, gateway: &str) -> Result<(), StoreError> {
        self.request(gateway, &Request::Resume)
    }

    /// Moves a session to a gateway: its present gateway logs it out. An initiator connects from
    /// the new gateway at once. An acceptor's counterparty has to connect to the new gateway.
    ///
    /// # Errors
    /// [`StoreError::Own`] if the new gateway does not answer, or if the session did not log out
    /// or connect.
    pub fn move_session(&self, session: &str, gateway: &str) -> Result<(), StoreError> {
        self.request(gateway, &Request::Move { session: session.to_owned() })
    }

    fn request(&self, gateway: &str, request: &Request) -> Result<(), StoreError> {
        let gateways = self.gateways()?;
        let mut named = gateways.iter().filter(|status| status.gateway == gateway);
        let run = match (named.next(), named.next()) {
            (Some(status), None) => status.run,
            (Some(_), Some(_)) => {
                return Err(wrong(format!("several gateways have the name {gateway}")));
            }
            (None, _) => {
                let names: Vec<_> = gateways.iter().map(|one| one.gateway.as_str()).collect();
                let others = if names.is_empty() {
                    "no gateway answers".to_owned()
                } else {
                    format!("these answer: {}", names.join(", "))
                };
                return Err(wrong(format!("the gateway {gateway} does not answer; {others}")));
            }
        };
        let reply = ask(&self.brokers, run, request, PATIENCE);
        match self.brokers.block_on(reply)? {
            Reply::Answer(Answer::Failed { why }) => Err(wrong(why)),
            Reply::Answer(_) => Ok(()),
            Reply::Gone | Reply::Silent => {
                Err(wrong(format!("the gateway {gateway} does not answer any more")))
            }
        }
    }
}

impl fmt::Debug for FleetOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetOperator").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::request::SessionInFleet;
    use super::*;

    #[test]
    fn the_administration_knows_the_form_of_a_gateway() {
        let session = SessionInFleet {
            session: "FIX.4.4:VENUE->A".to_owned(),
            is_owner: true,
            is_logged_on: false,
            next_num_in: 7,
            next_num_out: 8,
        };
        let (gateway, sessions) = ("gw1".to_owned(), vec![session]);
        let status = GatewayStatus { gateway, is_drained: true, sessions, run: 1 };
        // The keys that `transfix_admin::FleetStatus` reads.
        let session = json!({
            "session": "FIX.4.4:VENUE->A",
            "is_owner": true,
            "is_logged_on": false,
            "next_num_in": 7,
            "next_num_out": 8,
        });
        let expected =
            json!({ "gateway": "gw1", "is_drained": true, "sessions": [session], "run": 1 });
        assert_eq!(serde_json::to_value(status).unwrap(), expected);
    }
}
