//! Amendments: rules that the published files omit, or state in a form that programs cannot use.
//!
//! Invariants: each amendment is one entry of [`AMENDMENTS`] with its reason. An amendment that
//! changes nothing is an error, so the list stays true when the sources change.

use transfix_dictionary::{Code, DataType, Draft, DraftKind, DraftMember, Field};

enum Change {
    /// The fields accept values beside their codes.
    Open(&'static [u32]),
    /// Any value is accepted: the codes are not a closed list.
    NoCodes(&'static [u32]),
    /// The field also has these codes.
    AddCodes(u32, &'static [(&'static str, &'static str)]),
    /// The fields have this type.
    Type(&'static [u32], DataType),
    /// The component requires the field.
    Require { component: &'static str, tag: u32 },
    /// Each of the components requires its group.
    RequireGroups(&'static [&'static str]),
    /// The file includes the extension packs up to this one without stating so.
    Pack(u32),
    /// The group in the component may also contain the field, right after the other member.
    AddToGroup { component: &'static str, tag: u32, after: After },
}

#[derive(Clone, Copy)]
enum After {
    Field(u32),
    Component(&'static str),
}

use Change::{AddCodes, AddToGroup, NoCodes, Open, Pack, Require, RequireGroups, Type};

const UP_TO_50SP1: &[&str] = &["FIX40", "FIX41", "FIX42", "FIX43", "FIX44", "FIX50", "FIX50SP1"];

const AMENDMENTS: &[(&[&str], Change)] = &[
    // IOIShares, IOIQty: a quantity, or one of the codes S, M, L. The QuickFIX file format cannot
    // express the quantity.
    (UP_TO_50SP1, Open(&[27])),
    // SettlType: from 5.0 on a tenor (D5, M3) beside the codes.
    (&["FIX50", "FIX50SP1"], Open(&[63])),
    // DistribPaymentMethod, PaymentMethod: numbers from 1000 on are agreed by the parties.
    (&["FIX44"], Open(&[477, 492])),
    // 4.0 and 4.1 publish shares as int, but counterparties send 100.00: use the type of 4.2.
    (&["FIX40", "FIX41"], Type(&[14, 32, 38, 53, 80, 84, 110, 111, 134, 135], DataType::Qty)),
    (&["FIX41"], Type(&[151, 210], DataType::Qty)),
    // ExecInst: several instructions separated by blanks in all versions.
    (&["FIX40", "FIX41"], Type(&[18], DataType::MultipleStringValue)),
    // Symbol: published as required in Instrument; `[N/A]` where there is none.
    (&["FIX43", "FIX44"], Require { component: "Instrument", tag: 55 }),
    // OrdRejReason: a code that only the standard's own file has.
    (&["FIX44"], AddCodes(103, &[("12", "SURVEILLANCE_OPTION")])),
    // ClearingFeeIndicator and OrigOrdModTime: members that only the standard's own file has.
    // Without them a correct message would be rejected.
    (
        &["FIX44"],
        AddToGroup {
            component: "TrdCapRptSideGrp",
            tag: 635,
            after: After::Component("ClrInstGrp"),
        },
    ),
    (
        &["FIX44"],
        AddToGroup { component: "SideCrossOrdModGrp", tag: 586, after: After::Field(583) },
    ),
    // The newest field of the file, SelfMatchPreventionInstruction(2964), came with this pack.
    (&["FIX50SP2"], Pack(280)),
    // The file requires these components, but has lost the required flag of their groups. 5.0 SP1
    // and FIX Latest, before and after it, require the groups.
    (
        &["FIX50SP2"],
        RequireGroups(&[
            "BidCompRspGrp",
            "CompIDStatGrp",
            "CpctyConfGrp",
            "InstrmtMDReqGrp",
            "InstrmtStrkPxGrp",
            "LinesOfTextGrp",
            "ListOrdGrp",
            "MDFullGrp",
            "MDIncGrp",
            "MDReqGrp",
            "OrdListStatGrp",
            "QuotEntryGrp",
            "QuotReqGrp",
            "QuotReqRjctGrp",
            "QuotSetGrp",
            "RFQReqGrp",
            "SideCrossOrdCxlGrp",
            "SideCrossOrdModGrp",
            "TrdCapRptSideGrp",
            "TrdSessLstGrp",
        ]),
    ),
    // The same, but 5.0 SP1 does not have the group, or leaves it optional; FIX Latest requires it.
    (
        &["FIX50SP2"],
        RequireGroups(&[
            "ExpirationQty",
            "MDStatisticReqGrp",
            "MDStatisticRptGrp",
            "MarginAmount",
            "MarginReqmtInqQualGrp",
            "OrderEntryGrp",
            "Parties",
            "PartyDetailsUpdateGrp",
            "PartyEntitlementUpdateGrp",
            "PositionQty",
            "SettlObligationInstructions",
            "StrmAsgnReqGrp",
            "TargetParties",
        ]),
    ),
    // RefMsgType: names any message type that a counterparty sends or accepts, including its own
    // types.
    (&["FIXT11", "FIXLatest"], NoCodes(&[372])),
    (&["FIXLatest"], NoCodes(&[1619])),
    // MsgType: the session layer's file lists its own messages only.
    (&["FIXT11"], NoCodes(&[35])),
];

/// Amends a draft of this version to what the standard means.
///
/// # Errors
/// If an amendment has nothing to change.
pub(crate) fn amend(draft: &mut Draft, version: &str) -> Result<(), String> {
    for (versions, change) in AMENDMENTS {
        if versions.contains(&version) && !change.apply(draft) {
            return Err(format!("{version}: an amendment changes nothing; remove it: {change:?}"));
        }
    }
    Ok(())
}

/// Opens the fields of `draft` that are open in `other`, if the file format of `draft` cannot
/// express this.
pub(crate) fn open_as(draft: &mut Draft, other: &Draft) {
    let open = |tag: u32| other.fields.iter().any(|field| field.tag == tag && field.open);
    for field in draft.fields.iter_mut().filter(|field| !field.codes.is_empty()) {
        field.open |= open(field.tag);
    }
}

impl Change {
    /// Applies the amendment. Returns true if everything that it names was changed.
    fn apply(&self, draft: &mut Draft) -> bool {
        match self {
            Open(tags) => each_field(draft, tags, |f| !std::mem::replace(&mut f.open, true)),
            NoCodes(tags) => each_field(draft, tags, |field| {
                let had_any = !field.codes.is_empty();
                field.codes.clear();
                had_any
            }),
            AddCodes(tag, codes) => each_field(draft, &[*tag], |field| add_codes(field, codes)),
            Type(tags, data_type) => each_field(draft, tags, |field| {
                std::mem::replace(&mut field.data_type, *data_type) != *data_type
            }),
            Require { component, tag } => {
                let members = members_of(draft, component);
                members
                    .iter_mut()
                    .filter(|m| m.kind == DraftKind::Field(*tag))
                    .any(|member| !std::mem::replace(&mut member.required, true))
            }
            RequireGroups(components) => components.iter().all(|component| {
                let mut members = members_of(draft, component).iter_mut();
                let group = members.find(|m| matches!(m.kind, DraftKind::Group { .. }));
                group.is_some_and(|group| !std::mem::replace(&mut group.required, true))
            }),
            Pack(pack) => draft.extension_pack.replace(*pack) != Some(*pack),
            AddToGroup { component, tag, after } => {
                let mut groups = members_of(draft, component).iter_mut();
                groups.any(|member| add_to_group(member, *tag, *after))
            }
        }
    }
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Open(tags) => write!(f, "open {tags:?}"),
            NoCodes(tags) => write!(f, "no codes of {tags:?}"),
            AddCodes(tag, _) => write!(f, "add codes of {tag}"),
            Type(tags, data_type) => write!(f, "type {data_type} of {tags:?}"),
            Require { component, tag } => write!(f, "require {tag} in {component}"),
            RequireGroups(components) => write!(f, "require the groups of {components:?}"),
            Pack(pack) => write!(f, "extension pack {pack}"),
            AddToGroup { component, tag, .. } => write!(f, "add {tag} to the group of {component}"),
        }
    }
}

/// Changes each of the fields. Returns true if all exist and all changed.
fn each_field(draft: &mut Draft, tags: &[u32], change: impl Fn(&mut Field) -> bool) -> bool {
    tags.iter().all(|tag| draft.fields.iter_mut().find(|f| f.tag == *tag).is_some_and(&change))
}

fn add_codes(field: &mut Field, codes: &[(&str, &str)]) -> bool {
    let before = field.codes.len();
    for (value, name) in codes {
        if !field.codes.iter().any(|code| code.value == *value) {
            field.codes.push(Code { value: (*value).to_owned(), name: (*name).to_owned() });
        }
    }
    field.codes.len() > before
}

fn add_to_group(group: &mut DraftMember, tag: u32, after: After) -> bool {
    let DraftKind::Group { members, .. } = &mut group.kind else { return false };
    let is_before = |kind: &DraftKind| match after {
        After::Field(tag) => *kind == DraftKind::Field(tag),
        After::Component(name) => *kind == DraftKind::Component(name.to_owned()),
    };
    let has_it = members.iter().any(|member| member.kind == DraftKind::Field(tag));
    match members.iter().position(|member| is_before(&member.kind)) {
        Some(place) if !has_it => {
            let kind = DraftKind::Field(tag);
            members.insert(
                place + 1,
                DraftMember { required: false, required_if: None, kind, line: 0 },
            );
            true
        }
        _ => false,
    }
}

fn members_of<'d>(draft: &'d mut Draft, component: &str) -> &'d mut [DraftMember] {
    let found = draft.components.iter_mut().find(|known| known.name == component);
    found.map_or(&mut [], |component| &mut component.members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_required_once_and_only_where_they_are() {
        let text = "<fix major='4' minor='4'><components><component name='C'>\
                    <group name='NoA' required='N'><field name='A' required='N'/></group>\
                    </component><component name='D'><field name='A' required='N'/></component>\
                    </components><fields><field number='1' name='NoA' type='NUMINGROUP'/>\
                    <field number='2' name='A' type='INT'/></fields></fix>";
        let mut draft = Draft::from_xml(text, "a.xml").unwrap();
        assert!(RequireGroups(&["C"]).apply(&mut draft));
        assert!(draft.components[0].members[0].required);
        for none in ["C", "D", "E"] {
            assert!(!RequireGroups(Vec::leak(vec![none])).apply(&mut draft), "{none}");
        }
    }

    #[test]
    fn an_amendment_without_effect_is_noticed() {
        let text = "<fix major='4' minor='4'><components><component name='Instrument'>\
                    <field name='Symbol' required='N'/></component></components><fields>\
                    <field number='55' name='Symbol' type='INT'/></fields></fix>";
        let mut draft = Draft::from_xml(text, "a.xml").unwrap();
        let require = Require { component: "Instrument", tag: 55 };
        assert!(require.apply(&mut draft) && draft.components[0].members[0].required);
        assert!(!require.apply(&mut draft));
        assert!(Type(&[55], DataType::String).apply(&mut draft));
        assert!(!Type(&[55], DataType::String).apply(&mut draft));
        assert!(!Open(&[56]).apply(&mut draft));
        assert!(Pack(1).apply(&mut draft) && !Pack(1).apply(&mut draft));
        assert!(amend(&mut draft, "FIX44").is_err());
        assert!(amend(&mut draft, "FIX99").is_ok());
    }
}
