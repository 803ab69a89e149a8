//! Adds the conditional requirements from the field descriptions of the standard. The file
//! conditions.txt states the source of each rule.
//!
//! Invariant: each rule adds a condition to every version and message that the rule names.

use transfix_dictionary::{Draft, DraftConditional, DraftKind, DraftMember};

const TEXT: &str = include_str!("conditions.txt");

/// A rule: a field is required if a condition is true.
struct Rule {
    versions: Vec<&'static str>,
    /// The messages, as values of MsgType(35). An empty list means all messages that may contain
    /// the fields outside groups.
    messages: Vec<&'static str>,
    /// The group to whose entries the rule applies. `None` means fields outside groups.
    group: Option<&'static str>,
    field: &'static str,
    when: String,
    /// The text of the standard from which the rule is derived.
    says: String,
}

/// Returns all rules in the order of the file.
///
/// # Errors
/// If a line is not one of the three lines of a rule.
fn rules() -> Result<Vec<Rule>, String> {
    let mut rules: Vec<Rule> = Vec::new();
    for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let wrong = || format!("conditions.txt: '{line}'");
        let Some(text) = line.strip_prefix("    ") else {
            rules.push(Rule::of(line).ok_or_else(wrong)?);
            continue;
        };
        let Rule { when, says, .. } = rules.last_mut().ok_or_else(wrong)?;
        let part = if says.is_empty() { &mut *when } else { &mut *says };
        match (text.strip_prefix("    "), text.strip_prefix("when ")) {
            (Some(more), _) => *part = format!("{part} {more}"),
            (None, Some(condition)) => condition.clone_into(when),
            (None, None) => text.clone_into(says),
        }
    }
    match rules.iter().find(|rule| rule.when.is_empty() || rule.says.is_empty()) {
        Some(rule) => Err(format!("conditions.txt: {} has no condition or no words", rule.field)),
        None => Ok(rules),
    }
}

/// Adds the rules for this version to the messages of the draft.
///
/// # Errors
/// If a rule names a missing message, group or field, or a field that is required anyway.
pub(super) fn add(draft: &mut Draft, version: &str) -> Result<(), String> {
    for rule in rules()?.iter().filter(|rule| rule.versions.contains(&version)) {
        let added = rule.add(draft)?;
        if added == 0 || !rule.messages.is_empty() && rule.messages.len() != added {
            return Err(format!("{version}: {} if {}: adds {added}", rule.field, rule.when));
        }
    }
    Ok(())
}

impl Rule {
    /// Parses the first line of a rule in the file.
    fn of(line: &'static str) -> Option<Self> {
        let [versions, messages, field] = line.split(" | ").collect::<Vec<_>>().try_into().ok()?;
        let (group, field) = match field.split_once('/') {
            Some((group, field)) => (Some(group), field),
            None => (None, field),
        };
        let messages = if messages == "each" { "" } else { messages };
        Some(Self {
            versions: versions.split(' ').collect(),
            messages: messages.split_terminator(' ').collect(),
            group,
            field,
            when: String::new(),
            says: String::new(),
        })
    }

    /// Returns true if each field that the condition names is a member of the entry or of the
    /// message.
    fn can_hold(&self, draft: &Draft, levels: [&[DraftMember]; 2]) -> bool {
        let words = self.when.split(|c: char| !c.is_alphanumeric());
        let mut tags = words.filter_map(|word| tag_of(draft, word).ok());
        let is_in = |members, tag| member_of(draft, members, tag, true).is_some();
        tags.all(|tag| levels.into_iter().any(|members| is_in(members, tag)))
    }

    /// Adds the condition to each message of the rule. Returns the number of messages.
    fn add(&self, draft: &mut Draft) -> Result<usize, String> {
        let tag = tag_of(draft, self.field)?;
        let group = self.group.map(|name| tag_of(draft, name)).transpose()?;
        let mut places = Vec::new();
        for (at, message) in draft.messages.iter().enumerate() {
            let is_named = self.messages.is_empty() || self.messages.contains(&&*message.msg_type);
            let level = match group {
                None => Some(&*message.members),
                Some(group) => entry_of(draft, &message.members, group),
            };
            let member = level.and_then(|members| member_of(draft, members, tag, true));
            let levels = [level.unwrap_or_default(), &message.members];
            if is_named && member == Some(false) && self.can_hold(draft, levels) {
                places.push(at);
            }
        }
        for &at in &places {
            draft.messages[at].conditions.push(DraftConditional {
                tag,
                group,
                // The condition uses double quotes, which need no escape in the XML file.
                when: self.when.replace('\'', "\""),
                says: self.says.clone(),
                line: 0,
            });
        }
        Ok(places.len())
    }
}

fn tag_of(draft: &Draft, name: &str) -> Result<u32, String> {
    let field = draft.fields.iter().find(|field| field.name == name);
    field.map(|field| field.tag).ok_or_else(|| format!("no field is called '{name}'"))
}

/// Returns `Some(true)` if the member is always required, `Some(false)` if it is optional, and
/// `None` if it does not exist outside groups. `all` is true if all enclosing components are
/// required.
fn member_of(draft: &Draft, members: &[DraftMember], tag: u32, all: bool) -> Option<bool> {
    members.iter().find_map(|member| {
        let required = all && member.required;
        match &member.kind {
            DraftKind::Field(found) => (*found == tag).then_some(required),
            DraftKind::Group { count_tag, .. } => (*count_tag == tag).then_some(required),
            DraftKind::Component(name) => member_of(draft, component(draft, name), tag, required),
        }
    })
}

/// Returns the members of an entry of the group, or `None` if the group is nested in another group.
fn entry_of<'d>(
    draft: &'d Draft,
    members: &'d [DraftMember],
    tag: u32,
) -> Option<&'d [DraftMember]> {
    members.iter().find_map(|member| match &member.kind {
        DraftKind::Field(_) => None,
        DraftKind::Group { count_tag, members } => (*count_tag == tag).then_some(&**members),
        DraftKind::Component(name) => entry_of(draft, component(draft, name), tag),
    })
}

fn component<'d>(draft: &'d Draft, name: &str) -> &'d [DraftMember] {
    let found = draft.components.iter().find(|component| component.name == name);
    found.map_or(&[], |component| &component.members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionaries_that_ship_have_each_rule() {
        let rules = rules().unwrap();
        let count: usize = rules.iter().map(|rule| rule.versions.len()).sum();
        assert!(count >= 60, "{count}");
        for version in ["FIX42", "FIX44", "FIX50SP2"] {
            let mut shipped = Draft::standard(version).unwrap();
            let mut written = shipped.clone();
            written.messages.iter_mut().for_each(|message| message.conditions.clear());
            add(&mut written, version).unwrap();
            let conditions = |draft: &mut Draft| -> Vec<_> {
                let all = draft.messages.iter_mut().map(|message| {
                    message.conditions.iter_mut().for_each(|condition| condition.line = 0);
                    message.conditions.clone()
                });
                all.collect()
            };
            assert!(conditions(&mut shipped) == conditions(&mut written), "{version} is old");
        }
    }

    #[test]
    fn a_rule_that_adds_nothing_is_noticed() {
        let mut fix44 = Draft::standard("FIX44").unwrap();
        for (line, expected) in [
            ("FIX44 | D | Price", Ok(1)),
            ("FIX44 | 0 | Price", Ok(0)),
            ("FIX44 | D | NoPartyIDs/PartyRole", Ok(1)),
            // Required anyway.
            ("FIX44 | D | Side", Ok(0)),
            ("FIX44 | D | Prise", Err("no field is called 'Prise'".to_owned())),
        ] {
            let rule = Rule::of(line).unwrap();
            assert_eq!(rule.add(&mut fix44), expected, "{line}");
        }
    }
}
