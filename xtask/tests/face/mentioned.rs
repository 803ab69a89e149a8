//! Finds the types that occur within a type.

use syn::{GenericArgument, Path, PathArguments, ReturnType, Type, TypeParamBound};

/// Returns the paths within a type as they are written. `Self` and paths that begin with `Self` are
/// omitted.
pub(crate) fn mentioned(ty: &Type) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    collect(ty, &mut paths);
    paths.retain(|path| path[0] != "Self");
    paths
}

fn collect(ty: &Type, paths: &mut Vec<Vec<String>>) {
    match ty {
        Type::Array(ty) => collect(&ty.elem, paths),
        Type::Paren(ty) => collect(&ty.elem, paths),
        Type::Group(ty) => collect(&ty.elem, paths),
        Type::Ptr(ty) => collect(&ty.elem, paths),
        Type::Reference(ty) => collect(&ty.elem, paths),
        Type::Slice(ty) => collect(&ty.elem, paths),
        Type::Tuple(ty) => ty.elems.iter().for_each(|ty| collect(ty, paths)),
        Type::ImplTrait(ty) => ty.bounds.iter().for_each(|bound| of_bound(bound, paths)),
        Type::TraitObject(ty) => ty.bounds.iter().for_each(|bound| of_bound(bound, paths)),
        Type::Path(ty) => of_path(&ty.path, paths),
        _ => {}
    }
}

fn of_bound(bound: &TypeParamBound, paths: &mut Vec<Vec<String>>) {
    if let TypeParamBound::Trait(bound) = bound {
        of_path(&bound.path, paths);
    }
}

fn of_path(path: &Path, paths: &mut Vec<Vec<String>>) {
    paths.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
    for part in &path.segments {
        match &part.arguments {
            PathArguments::AngleBracketed(given) => {
                for argument in &given.args {
                    match argument {
                        GenericArgument::Type(ty) => collect(ty, paths),
                        GenericArgument::AssocType(given) => collect(&given.ty, paths),
                        _ => {}
                    }
                }
            }
            PathArguments::Parenthesized(given) => {
                given.inputs.iter().for_each(|input| collect(&input.ty, paths));
                if let ReturnType::Type(_, ty) = &given.output {
                    collect(ty, paths);
                }
            }
            PathArguments::None => {}
        }
    }
}
