//! Counts inbound application messages by MsgType(35) within intervals, to enforce the limits of
//! the settings.

use crate::config::{Throttle, ThrottleAction, nanos};

/// The limits of a session, each with the number of messages in its current interval.
#[derive(Debug)]
pub(crate) struct Throttles {
    limits: Vec<Limit>,
}

#[derive(Debug)]
struct Limit {
    throttle: Throttle,
    interval_ns: u64,
    begun_ns: u64,
    taken: u32,
}

impl Throttles {
    pub(crate) fn new(throttles: &[Throttle]) -> Self {
        let limit = |throttle: &Throttle| Limit {
            throttle: throttle.clone(),
            interval_ns: nanos(throttle.interval),
            begun_ns: 0,
            taken: 0,
        };
        Self { limits: throttles.iter().map(limit).collect() }
    }

    /// Counts a message, and returns the configured action if the limit is exceeded.
    #[inline]
    pub(crate) fn count(&mut self, now_ns: u64, msg_type: &[u8]) -> Option<ThrottleAction> {
        if self.limits.is_empty() { None } else { self.count_limited(now_ns, msg_type) }
    }

    #[inline(never)]
    fn count_limited(&mut self, now_ns: u64, msg_type: &[u8]) -> Option<ThrottleAction> {
        let of_type = |limit: &&mut Limit| limit.throttle.msg_type.as_bytes() == msg_type;
        let limit = self.limits.iter_mut().find(of_type)?;
        if limit.taken == 0 || now_ns.saturating_sub(limit.begun_ns) >= limit.interval_ns {
            limit.begun_ns = now_ns;
            limit.taken = 0;
        }
        limit.taken = limit.taken.saturating_add(1);
        (limit.taken > limit.throttle.messages_max).then_some(limit.throttle.action)
    }
}
