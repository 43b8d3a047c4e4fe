//! The exported functions that are implemented: the lists of all modules, and `cuGetProcAddress`
//! and its relatives, which search them.

use std::sync::OnceLock;

use millstream_driver::ResultCode;

use crate::{
    abi::{Out, Text},
    api,
    export::{Symbol, exports},
    refused,
    symbols::{self, Addresses},
};

fn addresses() -> &'static Addresses {
    static ADDRESSES: OnceLock<Addresses> = OnceLock::new();
    ADDRESSES.get_or_init(|| {
        let all = implemented().chain(refused::SYMBOLS);
        all.map(|symbol| (symbol.name, (symbol.address)()))
            .collect()
    })
}

pub(crate) fn implemented() -> impl Iterator<Item = &'static Symbol> {
    let lists = api::SYMBOLS.iter().chain([&SYMBOLS]);
    lists.flat_map(|list| list.iter())
}

exports! {
    /// An error if there is no such function.
    [cuGetProcAddress]
    fn _(call, name: Text, address: Out<usize>, version: i32, flags: u64) {
        let asked = (version, flags);
        let found = symbols::find(call, addresses(), name, address, asked, Out::null())?;
        found.then_some(()).ok_or(ResultCode::NOT_FOUND)
    }

    /// Only the status says whether there is such a function.
    [cuGetProcAddress_v2]
    fn _(
        call, name: Text, address: Out<usize>, version: i32, flags: u64, status: Out<i32>
    ) {
        symbols::find(call, addresses(), name, address, (version, flags), status).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::versions;

    #[test]
    fn every_symbol_of_the_headers_is_exported_once_and_no_other() {
        let mut exported = BTreeMap::new();
        for symbol in implemented().chain(refused::SYMBOLS) {
            let before = exported.insert(symbol.name, symbol);
            assert!(before.is_none(), "{} is listed twice", symbol.name);
        }
        for version in versions::symbols() {
            let found = exported.remove(version.symbol);
            assert!(found.is_some(), "{} is not exported", version.symbol);
        }
        let unknown: Vec<_> = exported.keys().collect();
        assert!(unknown.is_empty(), "not in the headers: {unknown:?}");
    }

    #[test]
    fn implemented_functions_have_as_many_parameters_as_in_the_headers() {
        let parameters: BTreeMap<_, _> = versions::symbols()
            .map(|version| (version.symbol, version.parameters))
            .collect();
        for symbol in implemented() {
            let expected = parameters.get(symbol.name).copied();
            assert_eq!(Some(symbol.parameters), expected, "{}", symbol.name);
        }
    }

    #[test]
    fn exactly_the_per_thread_versions_use_the_default_stream_of_the_thread() {
        let per_thread: Vec<_> = versions::FUNCTIONS
            .iter()
            .flat_map(|function| &function.per_thread)
            .map(|version| version.symbol)
            .collect();
        for symbol in implemented() {
            let expected = per_thread.contains(&symbol.name);
            assert_eq!(symbol.per_thread, expected, "{}", symbol.name);
        }
    }
}
