//! The modules of the crates, and name resolution in them.
//!
//! Only the language features that this project uses are supported: there are no glob imports, and
//! crates are renamed only in `pub use`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

use crate::sources::{CRATES, files};

/// The identity of an item: its crate's folder, the path of its module, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Def {
    pub(crate) module: Vec<String>,
    pub(crate) name: String,
}

/// A module, identified by its crate's folder and its path in the crate.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) items: Vec<Item>,
    /// The imports of the module: imported name, full path, and true for `pub use`.
    pub(crate) uses: Vec<(String, Vec<String>, bool)>,
}

/// All modules of all crates, by path. The first name of a path is the crate.
pub(crate) struct Tree {
    pub(crate) modules: BTreeMap<Vec<String>, Module>,
}

/// Returns the name of the item, if it has one.
pub(crate) fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Mod(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns true if the attributes show that the item exists only in tests.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    let only = |attribute: &Attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        is_cfg && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(only)
}

impl Tree {
    pub(crate) fn read() -> Self {
        let mut tree = Self { modules: BTreeMap::new() };
        for krate in CRATES {
            for (path, file) in files(krate) {
                let mut module = vec![krate.to_owned()];
                module.extend(place(&path));
                tree.add(module, file.items);
            }
        }
        tree
    }

    fn add(&mut self, path: Vec<String>, items: Vec<Item>) {
        let mut module = Module::default();
        for item in items {
            match item {
                Item::Use(found) => note(&mut module.uses, &found),
                Item::Mod(mut found) if found.content.is_some() => {
                    if let Some((_, items)) = found.content.take()
                        && !is_test(&found.attrs)
                    {
                        let inner = [&*path, &[found.ident.to_string()]].concat();
                        self.add(inner, items);
                        module.items.push(Item::Mod(found));
                    }
                }
                other => module.items.push(other),
            }
        }
        self.modules.insert(path, module);
    }

    /// Returns the item at this path, as seen from this module; `None` if the path leads into an
    /// external crate.
    pub(crate) fn resolve(&self, module: &[String], path: &[String]) -> Option<Def> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => return self.within(&module[..1], rest),
            "self" => return self.within(module, rest),
            "super" => return self.within(&module[..module.len() - 1], rest),
            outside if outside.starts_with("transfix_") => {
                let krate = outside.trim_start_matches("transfix_").to_owned();
                return self.within(&[krate], rest);
            }
            name => self.named(module, name)?,
        };
        match rest {
            [] => Some(start),
            rest => self.within(&[&*start.module, &[start.name]].concat(), rest),
        }
    }

    /// Resolves a path within a module. An empty path denotes the module itself.
    fn within(&self, module: &[String], path: &[String]) -> Option<Def> {
        match path {
            [] => {
                let (name, module) = module.split_last()?;
                Some(Def { module: module.to_vec(), name: name.clone() })
            }
            path if path[0] == "super" => self.within(&module[..module.len() - 1], &path[1..]),
            path => self.resolve_in(module, path),
        }
    }

    fn resolve_in(&self, module: &[String], path: &[String]) -> Option<Def> {
        let found = self.named(module, &path[0])?;
        match &path[1..] {
            [] => Some(found),
            rest => self.within(&[&*found.module, &[found.name]].concat(), rest),
        }
    }

    /// Returns the item with this name in the module: an item that the module defines, or an
    /// import.
    fn named(&self, module: &[String], name: &str) -> Option<Def> {
        let found = self.modules.get(module)?;
        if found.items.iter().any(|item| name_of(item).as_deref() == Some(name)) {
            return Some(Def { module: module.to_vec(), name: name.to_owned() });
        }
        let (_, path, _) = found.uses.iter().find(|(brought, ..)| brought == name)?;
        // A child module with this name has already been found above. Any other import path is
        // resolved from this module.
        if path.len() == 1 && path[0] == name { None } else { self.resolve(module, path) }
    }

    /// Returns the syntax tree of the item.
    pub(crate) fn item(&self, def: &Def) -> Option<&Item> {
        let module = self.modules.get(&def.module)?;
        module.items.iter().find(|item| name_of(item).as_deref() == Some(&def.name))
    }

    /// Returns the path of the module that this definition denotes; `None` for other items.
    pub(crate) fn as_module(&self, def: &Def) -> Option<Vec<String>> {
        let path = [&*def.module, std::slice::from_ref(&def.name)].concat();
        self.modules.contains_key(&path).then_some(path)
    }
}

/// Returns the module path of a source file: `a/b.rs` is `a::b`, and `lib.rs` is the crate root.
fn place(path: &Path) -> Vec<String> {
    let path: PathBuf = path.with_extension("");
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts == ["lib"] { Vec::new() } else { parts }
}

fn note(uses: &mut Vec<(String, Vec<String>, bool)>, item: &ItemUse) {
    let public = matches!(item.vis, Visibility::Public(_));
    let mut add = |name: String, path: Vec<String>| uses.push((name, path, public));
    walk(&item.tree, &mut Vec::new(), &mut add);
}

fn walk(tree: &UseTree, path: &mut Vec<String>, add: &mut impl FnMut(String, Vec<String>)) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            walk(&part.tree, path, add);
            path.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            add(path.last().cloned().unwrap_or_default(), path.clone());
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            add(name.clone(), [&**path, &[name]].concat());
        }
        UseTree::Rename(renamed) => {
            let whole = [&**path, &[renamed.ident.to_string()]].concat();
            add(renamed.rename.to_string(), whole);
        }
        UseTree::Glob(_) => {}
        UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, path, add)),
    }
}
