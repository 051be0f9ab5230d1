//! Who is who, by table.

use super::Whose::{Library, Plumbing, Program};
use super::{Code, Language, Whose, place};

#[test]
fn names_of_machine_code() {
    #[rustfmt::skip]
    let table: &[(&str, &str, Whose)] = &[
        ("/srv/router", "route_parcel", Program),
        ("/srv/router", "shop::orders::load", Program),
        ("/srv/router", "(anonymous namespace)::work", Program),
        ("/srv/router", "main", Program),
        ("/srv/router", "read_request", Program),
        ("/srv/router", "update_account.isra.0", Program),
        ("/srv/router", "sort.constprop.0", Program),
        ("/srv/router", "standby::run", Program),
        ("/srv/router", "corelate", Program),
        ("/srv/router", "Python::run", Program),
        ("/srv/router", "luajit_cache", Program),
        ("/srv/router", "router+0x1234", Program),
        ("/srv/router", "std::mutex::lock", Plumbing),
        ("/srv/router", "std::__detail::_Executor<char const*>::_M_dfs", Plumbing),
        ("/srv/router", "__gthread_mutex_lock", Plumbing),
        ("/srv/router", "__pthread_mutex_lock", Plumbing),
        ("/srv/router", "__GI___read", Plumbing),
        ("/srv/router", "__memmove_avx_unaligned_erms", Plumbing),
        ("/srv/router", "_int_free", Plumbing),
        ("/srv/router", "operator new", Plumbing),
        ("/srv/router", "std::sys::sync::mutex::futex::Mutex::lock_contended", Plumbing),
        ("/srv/router", "<i32>::overflowing_add", Plumbing),
        ("/srv/router", "<[T]>::sort_unstable_by", Plumbing),
        ("/srv/router", "<core::slice::iter::Iter<u8> as core::iter::Iterator>::next", Plumbing),
        ("/srv/router", "<alloc::vec::Vec<shop::Order> as core::clone::Clone>::clone", Plumbing),
        ("/srv/router", "<shop::Order as core::fmt::Display>::fmt", Program),
        ("/srv/router", "<str as shop::Price>::price", Program),
        ("/srv/router", "<alloc::vec::Vec<u8> as shop::Sum>::sum", Program),
        ("/srv/router", "<F as core::ops::function::FnOnce<()>>::call_once", Plumbing),
        ("/srv/router", "<fn() -> shop::Order as core::ops::function::FnOnce<()>>::call_once", Plumbing),
        ("/srv/router", "<(u8, shop::Order) as shop::Sum>::sum", Program),
        ("/srv/router", "core::ptr::drop_in_place<shop::Order>", Plumbing),
        ("/srv/router", "rust_begin_unwind", Plumbing),
        ("/srv/router", "core::panicking::panic_bounds_check", Plumbing),
        ("/srv/router", "tokio::runtime::park::Inner::park", Library),
        ("/srv/router", "je_malloc", Library),
        ("/srv/router", "SSL_read", Library),
        ("/srv/router", "uv__fs_open", Library),
        ("/srv/router", "boost::asio::detail::scheduler::run", Library),
        ("/srv/router", "_PyEval_EvalFrameDefault", Library),
        ("/srv/billing", "main.applyDiscount", Program),
        ("/srv/billing", "example.com/net/http.work", Program),
        ("/srv/billing", "net/http.(*conn).serve", Library),
        ("/srv/billing", "sort.Slice", Library),
        ("/srv/billing", "runtime.mallocgc", Library),
        ("/srv/billing", "runtime.gopark", Plumbing),
        ("/srv/billing", "crosscall_amd64", Plumbing),
        ("/srv/billing", "sync.(*Mutex).Lock", Plumbing),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "anything", Plumbing),
        ("libstdc++.so.6.0.30", "libstdc++.so.6.0.30+0x9d8b9", Plumbing),
        ("/usr/lib/x86_64-linux-gnu/libhiredis.so.1.1.0", "redisCommand", Library),
        ("/opt/shop/lib/libcrypto.so.3", "anything", Library),
        ("/opt/shop/lib/libshop.so", "price_of", Program),
        ("/usr/lib/nginx/modules/ngx_shop.so", "price_of", Program),
        ("/usr/bin/python3.11", "gc_collect_main", Library),
        ("/usr/local/bin/node", "anything", Library),
        ("/usr/bin/redis-server", "processCommand", Program),
    ];
    for (module, function, whose) in table {
        let code = Code { module, function: Some(function), ..Code::default() };
        assert_eq!(code.whose(), *whose, "{function} of {module}");
    }
}

#[test]
fn inlined_headers_are_told_by_their_source() {
    #[rustfmt::skip]
    let table: &[(&str, &str, Whose)] = &[
        ("push", "/usr/include/c++/12/bits/stl_vector.h", Plumbing),
        ("push", "/usr/lib/llvm-15/include/c++/v1/vector", Plumbing),
        ("push", "/rustc/90b35a6239c3d8bdabc530a6a0816f7ff89a0aaf/library/alloc/src/vec/mod.rs", Plumbing),
        ("push", "/home/a/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/num/mod.rs", Plumbing),
        ("push", "/home/a/.cargo/registry/src/index.crates.io-6f17d22bba15001f/bytes-1.5.0/src/lib.rs", Library),
        ("push", "/usr/local/include/simdjson.h", Library),
        ("push", "/home/a/shop/include/queue.h", Program),
        ("push", "/home/a/shop/library/queue.rs", Program),
    ];
    for (function, file, whose) in table {
        let code = Code { function: Some(function), file: Some(file), inlined: true, ..Code::default() };
        assert_eq!(code.whose(), *whose, "{file}");
        let real = Code { inlined: false, ..code };
        assert_eq!(real.whose(), Program, "{file}");
    }
}

#[test]
fn frames_of_languages() {
    #[rustfmt::skip]
    let table: &[(Language, &str, &str, Whose)] = &[
        (Language::Python, "Condition.wait", "/usr/lib/python3.11/threading.py", Plumbing),
        (Language::Python, "get", "/usr/lib/python3/dist-packages/pool.py", Library),
        (Language::Python, "run", "/opt/venv/lib/python3.12/site-packages/gunicorn/app/base.py", Library),
        (Language::Python, "render_menu", "/app/menu.py", Program),
        (Language::Python, "<module>", "<string>", Program),
        (Language::Python, "_find_and_load", "<frozen importlib._bootstrap>", Plumbing),
        (Language::Managed, "render_menu", "/app/menu.py", Program),
        (Language::Managed, "wait", "/usr/local/lib/python3.11/threading.py", Plumbing),
        (Language::JavaScript, "readPrice", "/app/prices.js", Program),
        (Language::JavaScript, "emit", "node:events", Plumbing),
        (Language::JavaScript, "next", "/app/node_modules/express/lib/router/index.js", Library),
        (Language::JavaScript, "Promise.then", "", Plumbing),
        (Language::Managed, "emit", "node:events", Plumbing),
        (Language::Go, "runtime.gopark", "/usr/lib/go/src/runtime/proc.go", Plumbing),
        (Language::Go, "net/http.(*conn).serve", "/usr/lib/go/src/net/http/server.go", Library),
        (Language::Go, "example.com/net/http.work", "/src/work.go", Program),
        (Language::Go, "github.com/gin-gonic/gin.(*Context).Next", "/go/pkg/mod/github.com/gin-gonic/gin@v1.9.1/context.go", Library),
        (Language::Go, "main.load[...]", "/src/main.go", Program),
        (Language::Managed, "(stub of the virtual machine)", "", Plumbing),
        (Language::Managed, "(regular expression)", "", Plumbing),
        (Language::JavaScript, "(anonymous)", "/app/booking.js", Program),
        (Language::Native, "(anonymous namespace)::load()", "/src/load.cpp", Program),
        (Language::Java, "java.util.HashMap.resize", "HashMap.java", Library),
        (Language::Java, "java/util/concurrent/locks/LockSupport.park", "", Plumbing),
        (Language::Java, "Scenes.loadTexture", "Scenes.java", Program),
        (Language::Java, "org.springframework.web.servlet.DispatcherServlet.doDispatch", "", Library),
        (Language::Java, "javalin.Server.run", "", Program),
        (Language::Managed, "Ljava/util/HashMap;::get", "", Library),
        (Language::Managed, "System.Threading.Monitor.Wait", "", Plumbing),
        (Language::Managed, "System.Text.RegularExpressions.Regex.IsMatch", "", Library),
        (Language::Managed, "Shop.Orders.Load", "", Program),
        (Language::Managed, "", "", Plumbing),
        (Language::Managed, "java.util.HashMap.resize", "HashMap.java", Library),
        (Language::Managed, "Scenes.loadTexture", "Scenes.java", Program),
    ];
    for (language, function, file, whose) in table {
        let function = Some(*function).filter(|name| !name.is_empty());
        let file = Some(*file).filter(|file| !file.is_empty());
        let code = Code { language: *language, function, file, ..Code::default() };
        assert_eq!(code.whose(), *whose, "{function:?} {file:?}");
    }
}

#[test]
fn the_place_is_the_innermost_of_the_best() {
    let at = |stack: &[Whose]| place(stack.iter().copied());
    assert_eq!(at(&[Plumbing, Library, Program, Library, Program]), Some(2));
    assert_eq!(at(&[Plumbing, Library, Plumbing, Library]), Some(1));
    assert_eq!(at(&[Plumbing, Plumbing]), Some(0));
    assert_eq!(at(&[]), None);
}
