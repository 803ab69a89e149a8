//! Snapshots of the sessions, and the changes between two snapshots.

use std::collections::BTreeMap;

use transfix::{Admin, SessionId, clock};

use crate::fix::session_data::{SessionSummary, identity};
use crate::fix::xml::Writer;
use crate::shown::moment;

/// A snapshot of all sessions, ordered by their identity.
#[derive(Clone, Default)]
pub(super) struct Listed(BTreeMap<String, (SessionId, SessionSummary)>);

impl Listed {
    pub(super) fn of(admin: &Admin) -> Self {
        let all = admin.handles();
        let all = all.iter().map(|handle| {
            let standing = SessionSummary::of(handle, &handle.status());
            (handle.id().to_string(), (handle.id().clone(), standing))
        });
        Self(all.collect())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&SessionId, SessionSummary)> {
        self.0.values().map(|(id, standing)| (id, *standing))
    }

    /// Returns the sessions that were added, changed or removed since the snapshot `before`.
    pub(super) fn changes<'l>(
        &'l self,
        before: &'l Self,
    ) -> Vec<(&'l SessionId, &'static str, SessionSummary)> {
        let mut changes = Vec::new();
        for (key, (id, standing)) in &self.0 {
            match before.0.get(key) {
                None => changes.push((id, "NEW", *standing)),
                Some((_, other)) if other != standing => changes.push((id, "UPDATED", *standing)),
                Some(_) => {}
            }
        }
        let gone = before.0.iter().filter(|(key, _)| !self.0.contains_key(*key));
        let gone_standing = SessionSummary { status: "DELETED", group: "DISCONNECTED" };
        changes.extend(gone.map(|(_, (id, _))| (id, "DELETED", gone_standing)));
        changes
    }
}

/// Writes the element `SessionsListData` with the given sessions and the change of each.
pub(super) fn write_list<'l>(
    all: impl Iterator<Item = (&'l SessionId, &'static str, SessionSummary)>,
    xml: &mut Writer,
) {
    let now = moment(clock::now().utc);
    xml.within("SessionsListData", |xml| {
        for (id, action, standing) in all {
            xml.within("Session", |xml| {
                identity(id, xml);
                xml.leaf("Timestamp", &now).leaf("Action", action);
                standing.write(xml);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use transfix::BeginString;

    use super::*;

    #[test]
    fn what_is_other_is_told() {
        let of = |all: &[(&str, &'static str)]| {
            let all = all.iter().map(|(name, status)| {
                let standing = SessionSummary { status, group: "X" };
                ((*name).to_owned(), (SessionId::new(BeginString::Fix44, name, "T"), standing))
            });
            Listed(all.collect())
        };
        let before = of(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let after = of(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let told = after.changes(&before).into_iter();
        let told = told.map(|(id, action, _)| (id.sender_comp_id.to_string(), action));
        let told: Vec<_> = told.collect();
        let expected = [("b", "UPDATED"), ("d", "NEW"), ("c", "DELETED")];
        assert_eq!(told, expected.map(|(name, action)| (name.to_owned(), action)));
        assert!(after.changes(&after.clone()).is_empty());
    }
}
