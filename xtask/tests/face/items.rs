//! Lists all public items of the package `transfix`, one per line, and checks that users can name
//! the types in signatures.
//!
//! Invariants: users of the package can name each type in its signatures; the list changes only
//! deliberately.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Attribute, Fields, FnArg, GenericParam, ImplItem, Item, ItemImpl, ReturnType, TraitItem, Type,
    Visibility,
};

use crate::mentioned::mentioned;
use crate::sources::is_up_to_date;
use crate::spelled::spelled;
use crate::tree::{Def, Tree, is_test, name_of};

const LIST: &str = "crates/engine/public.txt";

/// Macros of this project that create a public item for each argument.
const MAKERS: [&str; 3] = ["tags", "types", "switches"];

/// The list of public items, while it is being built.
struct Face<'t> {
    tree: &'t Tree,
    /// The public items, each with its shortest path.
    shown: BTreeMap<Def, String>,
    lines: BTreeSet<String>,
    /// Types in signatures that users cannot name.
    hidden: BTreeSet<String>,
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn visibility(item: &Item) -> Option<&Visibility> {
    Some(match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Mod(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        _ => return None,
    })
}

/// Returns those attributes of an item that matter to users.
fn marks(attributes: &[Attribute]) -> String {
    let seen = ["derive", "non_exhaustive", "must_use", "repr"];
    let is_seen = |a: &&Attribute| seen.iter().any(|name| a.path().is_ident(name));
    let marks: Vec<_> = attributes.iter().filter(is_seen).map(spelled).collect();
    let marks = marks.iter().map(|mark| match mark.starts_with("#[must_use") {
        true => "#[must_use] ".to_owned(),
        false => format!("{mark} "),
    });
    marks.collect()
}

/// Returns true for modules of the feature `rig`, which exists only for this project's own
/// simulation. Such modules may expose types of lower crates.
fn is_rig(module: &[String]) -> bool {
    let module: Vec<_> = module.iter().map(String::as_str).collect();
    matches!(module[..], ["engine", "io", ..] | ["engine", "simulated", "rig", ..])
}

impl Face<'_> {
    /// Finds all public items. If an item has several paths, the path nearest to the root counts.
    fn find(&mut self) {
        let mut modules = vec![(vec!["engine".to_owned()], "transfix".to_owned())];
        while let Some((module, name)) = (!modules.is_empty()).then(|| modules.remove(0)) {
            let found = &self.tree.modules[&module];
            let own = found.items.iter().filter(|item| visibility(item).is_some_and(is_public));
            let own = own.filter_map(name_of);
            let own = own.map(|name| (Def { module: module.clone(), name: name.clone() }, name));
            let brought = found.uses.iter().filter(|(.., public)| *public);
            let brought = brought.filter_map(|(name, path, _)| {
                let target = self.tree.resolve(&module, path);
                if target.is_none() {
                    let path = path.join("::");
                    self.lines.insert(format!("use {path}"));
                }
                Some((target?, name.clone()))
            });
            let entries: Vec<_> = own.chain(brought).collect();
            for (def, last) in entries {
                let whole = format!("{name}::{last}");
                if let Some(first) = self.shown.get(&def) {
                    self.lines.insert(format!("use {whole} = {first}"));
                    continue;
                }
                self.shown.insert(def.clone(), whole.clone());
                match self.tree.as_module(&def) {
                    Some(inner) => modules.push((inner, whole)),
                    // A re-exported crate is treated as a module.
                    None if def.module.is_empty() => modules.push((vec![def.name], whole)),
                    None => {}
                }
            }
            self.made(&module, &name);
        }
    }

    /// Adds the items that macros create.
    fn made(&mut self, module: &[String], name: &str) {
        for item in &self.tree.modules[module].items {
            let Item::Macro(made) = item else { continue };
            let maker = made.mac.path.segments.last().unwrap().ident.to_string();
            if !MAKERS.contains(&maker.as_str()) {
                continue;
            }
            let text = spelled(&made.mac.tokens);
            let end = if text.contains(';') { ';' } else { ',' };
            for part in text.split(end).map(str::trim).filter(|part| !part.is_empty()) {
                self.lines.insert(format!("const {name}::{part}"));
            }
        }
    }

    fn list(&mut self) {
        for (def, name) in self.shown.clone() {
            if let Some(item) = self.tree.item(&def) {
                self.item(&def.module, &name, item);
            }
        }
        let tree = self.tree;
        for (module, found) in &tree.modules {
            for item in &found.items {
                if let Item::Impl(block) = item
                    && !is_test(&block.attrs)
                {
                    self.block(module, block);
                }
            }
        }
    }

    fn line(&mut self, module: &[String], text: String, types: &[&Type]) {
        for ty in types {
            self.check(module, &text, mentioned(ty));
        }
        self.lines.insert(text);
    }

    /// Checks that users can name each type in a signature of the package itself. A type of a lower
    /// crate may refer to other types of that crate, because its users can add the crate as a
    /// dependency.
    fn check(&mut self, module: &[String], text: &str, paths: Vec<Vec<String>>) {
        if module[0] != "engine" || is_rig(module) {
            return;
        }
        for path in paths {
            if let Some(def) = self.tree.resolve(module, &path)
                && self.tree.item(&def).is_some()
                && !self.shown.contains_key(&def)
            {
                self.hidden.insert(format!("{} in {text}", path.join("::")));
            }
        }
    }

    fn item(&mut self, module: &[String], name: &str, item: &Item) {
        match item {
            Item::Const(item) => {
                let text = format!("const {name}: {}", spelled(&item.ty));
                self.line(module, text, &[&item.ty]);
            }
            Item::Type(item) => {
                let text = format!("type {name} = {}", spelled(&item.ty));
                self.line(module, text, &[&item.ty]);
            }
            Item::Fn(item) => self.function(module, name, &item.sig),
            Item::Struct(item) => {
                let generics = spelled(&item.generics);
                self.line(module, format!("{}struct {name}{generics}", marks(&item.attrs)), &[]);
                self.fields(module, name, &item.fields, false);
            }
            Item::Enum(item) => {
                let generics = spelled(&item.generics);
                self.line(module, format!("{}enum {name}{generics}", marks(&item.attrs)), &[]);
                for variant in &item.variants {
                    let name = format!("{name}::{}", variant.ident);
                    let value = variant.discriminant.as_ref();
                    let value = value.map_or(String::new(), |(_, v)| format!(" = {}", spelled(v)));
                    self.line(module, format!("variant {name}{value}"), &[]);
                    self.fields(module, &name, &variant.fields, true);
                }
            }
            Item::Trait(item) => {
                let generics = spelled(&item.generics);
                let above = match item.supertraits.is_empty() {
                    true => String::new(),
                    false => format!(": {}", spelled(&item.supertraits)),
                };
                self.line(module, format!("trait {name}{generics}{above}"), &[]);
                for item in &item.items {
                    match item {
                        TraitItem::Fn(function) => {
                            let default = function.default.as_ref().map(|_| " { .. }");
                            let of = format!("{name}::{}", function.sig.ident);
                            self.signature(module, &of, &function.sig, default.unwrap_or_default());
                        }
                        TraitItem::Const(item) => {
                            let text =
                                format!("const {name}::{}: {}", item.ident, spelled(&item.ty));
                            self.line(module, text, &[&item.ty]);
                        }
                        TraitItem::Type(item) => {
                            self.line(module, format!("type {name}::{}", item.ident), &[]);
                        }
                        _ => {}
                    }
                }
            }
            Item::Mod(_) => self.line(module, format!("mod {name}"), &[]),
            _ => {}
        }
    }

    fn fields(&mut self, module: &[String], name: &str, fields: &Fields, of_variant: bool) {
        for (n, field) in fields.iter().enumerate() {
            if of_variant || is_public(&field.vis) {
                let last = field.ident.as_ref().map_or(n.to_string(), ToString::to_string);
                let text = format!("field {name}::{last}: {}", spelled(&field.ty));
                self.line(module, text, &[&field.ty]);
            }
        }
    }

    fn function(&mut self, module: &[String], name: &str, signature: &syn::Signature) {
        self.signature(module, name, signature, "");
    }

    fn signature(&mut self, module: &[String], name: &str, found: &syn::Signature, end: &str) {
        let types = found.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(input) => Some(&*input.ty),
            FnArg::Receiver(_) => None,
        });
        let output = match &found.output {
            ReturnType::Type(_, ty) => Some(&**ty),
            ReturnType::Default => None,
        };
        let own = found.generics.params.iter().filter_map(|param| match param {
            GenericParam::Type(param) => Some(param.ident.to_string()),
            _ => None,
        });
        let own: Vec<_> = own.collect();
        let text =
            spelled(found).replacen(&format!("fn {}", found.ident), &format!("fn {name}"), 1);
        let text = format!("{text}{end}");
        let paths = types.chain(output).flat_map(mentioned);
        let paths = paths.filter(|path| !own.contains(&path[0])).collect();
        self.check(module, &text, paths);
        self.lines.insert(text);
    }

    fn block(&mut self, module: &[String], block: &ItemImpl) {
        let of = mentioned(&block.self_ty);
        let def = of.first().and_then(|path| self.tree.resolve(module, path));
        let of_ours = def.as_ref().is_some_and(|def| self.tree.item(def).is_some());
        let shown = def.and_then(|def| self.shown.get(&def).cloned());
        if let Some((path, _)) = &block.trait_ {
            let ours: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
            let ours = self.tree.resolve(module, &ours).filter(|def| self.tree.item(def).is_some());
            let is_seen = ours.as_ref().is_none_or(|def| self.shown.contains_key(def));
            if is_seen && (shown.is_some() || ours.is_some() && !of_ours) {
                let of = shown.unwrap_or_else(|| spelled(&block.self_ty));
                let own = spelled(&block.generics);
                let text = format!("impl{own} {} for {of}", spelled(path));
                self.line(module, text, &[]);
            }
            return;
        }
        let Some(name) = shown else { return };
        for item in &block.items {
            match item {
                ImplItem::Fn(function) if is_public(&function.vis) => {
                    let of = format!("{name}::{}", function.sig.ident);
                    self.function(module, &of, &function.sig);
                }
                ImplItem::Const(item) if is_public(&item.vis) => {
                    let text = format!("const {name}::{}: {}", item.ident, spelled(&item.ty));
                    self.line(module, text, &[&item.ty]);
                }
                _ => {}
            }
        }
    }
}

/// Returns the item name that a line describes; it serves as the sort key of the line.
fn subject(line: &str) -> &str {
    let at = line.find("transfix::").unwrap_or(0);
    line[at..].split(['(', '<', ' ', ':']).next().map_or(line, |_| &line[at..])
}

#[test]
fn the_public_items_are_those_of_the_list() {
    let tree = Tree::read();
    let mut face = Face {
        tree: &tree,
        shown: BTreeMap::new(),
        lines: BTreeSet::new(),
        hidden: BTreeSet::new(),
    };
    face.find();
    face.list();
    let hidden: Vec<_> = face.hidden.into_iter().collect();
    assert!(hidden.is_empty(), "not exported by `transfix`:\n{}", hidden.join("\n"));
    let mut lines: Vec<_> = face.lines.into_iter().collect();
    lines.sort_by(|one, other| (subject(one), one).cmp(&(subject(other), other)));
    let wanted = lines.join("\n") + "\n";
    let before = std::fs::read_to_string(xtask::root().join(LIST)).unwrap_or_default();
    let is_listed = is_up_to_date(LIST, &wanted);
    let (now, old): (BTreeSet<_>, BTreeSet<_>) =
        (wanted.lines().collect(), before.lines().collect());
    let gone = old.difference(&now).map(|line| format!("- {line}"));
    let new = now.difference(&old).map(|line| format!("+ {line}"));
    let changes: Vec<_> = gone.chain(new).collect();
    assert!(
        is_listed,
        "what the package `transfix` shows has changed:\n{}\nIf it is meant, run \
         `TRANSFIX_WRITE_DOCS=1 cargo test -p xtask --test face`, and give CHANGELOG.md a line for \
         those who use it.",
        changes.join("\n")
    );
}
