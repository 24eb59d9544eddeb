/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cmwq.hpp: workqueues in C++17 and later, on cmwq.h. Header only; links with libcmwq like a C
 * program.
 *
 *	cmwq::workqueue io("io");
 *	std::future<int> answer = io.submit([] { return 6 * 7; });
 *	io.execute([] { log("queued, and no thread waits"); });
 *	cmwq::scope(io, [&](auto &s) {     // items that borrow from this frame
 *		s.spawn([&] { sort(left); });
 *		sort(right);
 *	});
 *
 * THREADS. Every function may be called from any thread, also from work items. ERRORS are thrown as
 * std::system_error, with the error numbers of cmwq.h. EXCEPTIONS of a submitted function come out
 * of its future, those of an item of a scope out of scope(); one that leaves a function of
 * execute() or of a cmwq::work ends the program (std::terminate), as it does with std::thread.
 *
 * WAITING for a std::future in a work item is something that cmwq does not know of: it is found out
 * after some milliseconds, and another item runs then. To have one run at once: cmwq::blocking([&]
 * { return future.get(); }).
 */
#ifndef CMWQ_HPP
#define CMWQ_HPP

#include <cmwq.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cmwq {

class workqueue;

/* As a timeout: as long as it takes. */
inline constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();

namespace detail {

inline std::uint64_t nanoseconds(std::chrono::nanoseconds timeout)
{
	if (timeout == forever)
		return UINT64_MAX;
	return timeout.count() < 0 ? 0 : static_cast<std::uint64_t>(timeout.count());
}

[[noreturn]] inline void fail(int error, const char *what)
{
	throw std::system_error(error, std::generic_category(), what);
}

/* Zero or more is what it says; below it is a negative error number. */
inline int checked(int result, const char *what)
{
	if (result < 0)
		fail(-result, what);
	return result;
}

/* Queues an item that no other thread has. */
inline void queue_new(cmwq_workqueue *wq, cmwq_work *work)
{
	int fate = checked(cmwq_try_queue_work(wq, work), "cmwq: queueing");

	if (fate != CMWQ_QUEUED_ACCEPTED)
		fail(ESHUTDOWN, "cmwq: the workqueue is being drained or destroyed");
}

/* An item that is freed by its own run. */
template <typename F> struct one_shot final : cmwq_work {
	F func;

	template <typename G> explicit one_shot(G &&g) : cmwq_work(), func(std::forward<G>(g))
	{
		cmwq_init_work(this, run);
	}

	/* noexcept: an exception must not reach the library. */
	static void run(cmwq_work *work) noexcept
	{
		/*
		 * Freed when it has returned, not before: an item that it makes could come to lie
		 * here, and would count as this one, which still runs.
		 */
		std::unique_ptr<one_shot> self(static_cast<one_shot *>(work));

		self->func();
	}
};

/* Ways to queue an item: at once, and when there is room. */
struct now {
	cmwq_workqueue *wq;

	int operator()(cmwq_work *work) const { return cmwq_try_queue_work(wq, work); }
};
struct within {
	cmwq_workqueue *wq;
	std::chrono::nanoseconds timeout;

	int operator()(cmwq_work *work) const
	{
		return cmwq_queue_work_wait_ns(wq, work, nanoseconds(timeout));
	}
};

/* Has `queue(item)` queue an item that calls `func`. false: there is no room for it. */
template <typename F, typename Q> bool offer_one_shot(Q &&queue, F &&func)
{
	auto item = std::make_unique<one_shot<std::decay_t<F>>>(std::forward<F>(func));
	int fate = queue(item.get());

	if (fate == -ENOBUFS || fate == -ETIMEDOUT)
		return false;
	if (checked(fate, "cmwq: queueing") != CMWQ_QUEUED_ACCEPTED)
		fail(ESHUTDOWN, "cmwq: the workqueue is being drained or destroyed");
	/* The run frees it. Nothing was freed yet in any other way, and nothing below throws. */
	(void)item.release();
	return true;
}

inline void must_have_room(bool has_room)
{
	if (!has_room)
		fail(ENOBUFS, "cmwq: as many items wait as max_waiting allows");
}

/* Whether `F` can be called with copies of `Args`. */
template <typename F, typename... Args>
inline constexpr bool calls = std::is_invocable_v<std::decay_t<F>, std::decay_t<Args>...>;

/* `func`, which an item is to call without arguments. One that wants some is one error. */
template <typename F> decltype(auto) callable(F &&func) noexcept
{
	constexpr bool fits = std::is_invocable_v<std::decay_t<F> &>;

	static_assert(fits, "cmwq: an item calls its function without arguments, and this one "
			    "wants some, or is no function; pass a lambda that has them, or "
			    "submit(function, arguments...)");
	if constexpr (fits)
		return std::forward<F>(func);
	else
		return [] {};
}

/* Fulfils `promise` with what `func` returns or throws. */
template <typename R, typename F> void fulfil(std::promise<R> &promise, F &&func) noexcept
{
	try {
		if constexpr (std::is_void_v<R>) {
			std::forward<F>(func)();
			promise.set_value();
		} else {
			promise.set_value(std::forward<F>(func)());
		}
	} catch (...) {
		promise.set_exception(std::current_exception());
	}
}

/* Calls `func(args...)` for a future. A type of its own, so that tools show `F`. */
template <typename R, typename F, typename... Args> struct promised {
	std::promise<R> promise;
	F func;
	std::tuple<Args...> args;

	void operator()()
	{
		fulfil<R>(promise, [&]() -> R {
			return std::apply(std::move(func), std::move(args));
		});
	}
};

} // namespace detail

/*
 * A reusable work item: queued again and again without an allocation, and never running beside
 * itself. Stays where it is. Its destructor removes a pending instance and waits for a running one,
 * so it must not be destroyed by its own function.
 */
class work {
public:
	template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, work>>>
	explicit work(F &&func) : func_(detail::callable(std::forward<F>(func)))
	{
		cmwq_init_work(&item_, run<std::decay_t<F>>);
		item_.self = this;
	}
	work(const work &) = delete;
	work &operator=(const work &) = delete;
	~work() { cmwq_disable_work_sync(&item_); }

	/* Waits until what was pending or running has run. false: there was nothing. */
	bool flush() { return cmwq_flush_work(&item_); }
	/*
	 * The same, for `timeout` at most. false: it has not ended by then. EDEADLK: it cannot end
	 * before the calling item does.
	 */
	[[nodiscard]] bool flush_for(std::chrono::nanoseconds timeout)
	{
		int ended = cmwq_flush_work_timeout_ns(&item_, detail::nanoseconds(timeout));

		if (ended == -ETIMEDOUT)
			return false;
		detail::checked(ended, "cmwq_flush_work_timeout_ns");
		return true;
	}
	/* Removes a pending instance. true: there was one. */
	bool cancel() { return cmwq_cancel_work(&item_); }
	/* The same, and waits for a running one. */
	bool cancel_sync() { return cmwq_cancel_work_sync(&item_); }
	/*
	 * Removes a pending instance, and refuses others until enable() was called as often. true:
	 * there was one.
	 */
	bool disable() { return cmwq_disable_work(&item_); }
	/* The same, and waits for a running one. */
	bool disable_sync() { return cmwq_disable_work_sync(&item_); }
	/* true: it may be queued again. */
	bool enable() { return cmwq_enable_work(&item_); }
	/* A hint. */
	bool pending() const { return cmwq_work_pending(&item_); }
	cmwq_work *native_handle() { return &item_; }

private:
	struct item : cmwq_work {
		work *self = nullptr;
	};

	/* A function for each type, so that tools show `F`. */
	template <typename F> static void run(cmwq_work *item) noexcept
	{
		static_cast<struct item *>(item)->self->func_();
	}

	struct item item_ = {};
	std::function<void()> func_;
};

/* What became of an item that was to be queued. */
enum class queued {
	/* One new instance was accepted and will run. */
	accepted,
	/* It was pending already: that run will see what the caller did before. */
	pending,
	/*
	 * It is disabled, or being cancelled by cancel_sync() or its destructor: nothing will run
	 * for this call.
	 */
	disabled,
	/*
	 * As many items wait as max_waiting allows: nothing will run for this call. From
	 * try_queue() and queue_within() only; queue() throws ENOBUFS.
	 */
	full
};

/* What can be said of a workqueue: see workqueue::with(). */
struct options {
	/* CMWQ_WQ_... */
	unsigned int flags = CMWQ_WQ_UNBOUND;
	/* How many items run at the same time; 0: the default. */
	int max_active = 0;
	/* How many items wait at most; 0: any number. */
	std::size_t max_waiting = 0;
	/* The items run one at a time, in order. `flags` are 0 then, or some that go with it. */
	bool ordered = false;
	/* A limit that it shares with others: cmwq_alloc_group(). */
	cmwq_group *group = nullptr;
	/* Threads of its own: cmwq_alloc_threads(). */
	const cmwq_threads *threads = nullptr;
};

/* A workqueue. The destructor runs what is left (waits), then ends it. */
class workqueue {
public:
	/* As cmwq_alloc_workqueue(): `flags` are CMWQ_WQ_..., `max_active` 0 is the default. */
	explicit workqueue(const std::string &name, unsigned int flags = CMWQ_WQ_UNBOUND,
			   int max_active = 0)
	    : wq_(cmwq_alloc_workqueue(name.c_str(), flags, max_active)), name_(name)
	{
		if (!wq_)
			detail::fail(errno, "cmwq_alloc_workqueue");
	}
	/* One whose items run one at a time, in the order in which they were queued. */
	static workqueue ordered(const std::string &name, unsigned int flags = 0)
	{
		cmwq_workqueue *wq = cmwq_alloc_ordered_workqueue(name.c_str(), flags);

		if (!wq)
			detail::fail(errno, "cmwq_alloc_ordered_workqueue");
		return workqueue(wq, name);
	}
	/* One with a bound on what waits, say: `cmwq::options o; o.max_waiting = 100;`. */
	static workqueue with(const std::string &name, const options &o)
	{
		cmwq_workqueue_options more = CMWQ_WORKQUEUE_OPTIONS_INIT;

		more.ordered = o.ordered;
		more.threads = o.threads;
		more.group = o.group;
		more.max_waiting = o.max_waiting;
		cmwq_workqueue *wq =
			cmwq_alloc_workqueue_with(name.c_str(), o.flags, o.max_active, &more);

		if (!wq)
			detail::fail(errno, "cmwq_alloc_workqueue_with");
		return workqueue(wq, name);
	}
	workqueue(workqueue &&other) noexcept
	    : wq_(std::exchange(other.wq_, nullptr)), name_(std::move(other.name_))
	{
	}
	workqueue &operator=(workqueue &&other) noexcept
	{
		if (this != &other) {
			reset();
			wq_ = std::exchange(other.wq_, nullptr);
			name_ = std::move(other.name_);
		}
		return *this;
	}
	~workqueue() { reset(); }

	/* Whether there is one: false once it was moved from. */
	explicit operator bool() const noexcept { return wq_ != nullptr; }
	/* As it was given; tools show 31 bytes of it. */
	const std::string &name() const noexcept { return name_; }

	/*
	 * Runs func(args...) as an item; what it returns or throws is in the future, whose
	 * destructor does not wait. ENOBUFS: the workqueue has a bound on what waits, and is full.
	 */
	template <typename F, typename... Args> auto submit(F &&func, Args &&...args)
	{
		if constexpr (detail::calls<F, Args...>) {
			auto future =
				try_submit(std::forward<F>(func), std::forward<Args>(args)...);

			detail::must_have_room(future.has_value());
			return std::move(*future);
		} else {
			(void)try_submit(std::forward<F>(func), std::forward<Args>(args)...);
		}
	}
	/* The same; std::nullopt: it is full, and `func` was destroyed without a call. */
	template <typename F, typename... Args>
	[[nodiscard]] auto try_submit(F &&func, Args &&...args)
	{
		return submit_by(detail::now{wq_}, std::forward<F>(func),
				 std::forward<Args>(args)...);
	}
	/*
	 * The same, and waits for room, for `timeout` at most. EDEADLK: the caller is one of its
	 * own items.
	 */
	template <typename F, typename... Args>
	[[nodiscard]] auto submit_within(std::chrono::nanoseconds timeout, F &&func, Args &&...args)
	{
		return submit_by(detail::within{wq_, timeout}, std::forward<F>(func),
				 std::forward<Args>(args)...);
	}
	/* Runs func() as an item that no thread waits for. ENOBUFS: it is full. */
	template <typename F> void execute(F &&func)
	{
		detail::must_have_room(try_execute(std::forward<F>(func)));
	}
	/* The same; false: it is full, and `func` was destroyed without a call. */
	template <typename F> [[nodiscard]] bool try_execute(F &&func)
	{
		return detail::offer_one_shot(detail::now{wq_},
					      detail::callable(std::forward<F>(func)));
	}
	/* The same, and waits for room, for `timeout` at most. EDEADLK: as submit_within(). */
	template <typename F>
	[[nodiscard]] bool execute_within(std::chrono::nanoseconds timeout, F &&func)
	{
		return detail::offer_one_shot(detail::within{wq_, timeout},
					      detail::callable(std::forward<F>(func)));
	}
	/* Queues `work`. ESHUTDOWN: the workqueue is being drained. ENOBUFS: it is full. */
	queued queue(cmwq::work &work)
	{
		queued fate = try_queue(work);

		detail::must_have_room(fate != queued::full);
		return fate;
	}
	/* The same, and says if it is full. */
	[[nodiscard]] queued try_queue(cmwq::work &work)
	{
		return queue_by(detail::now{wq_}, work);
	}
	/* The same, and waits for room, for `timeout` at most. EDEADLK: as submit_within(). */
	[[nodiscard]] queued queue_within(std::chrono::nanoseconds timeout, cmwq::work &work)
	{
		return queue_by(detail::within{wq_, timeout}, work);
	}
	/*
	 * Waits until everything queued before has run. EDEADLK: called from one of its own items.
	 */
	void flush() { detail::checked(cmwq_flush_workqueue(wq_), "cmwq_flush_workqueue"); }
	/* Waits until it is empty; meanwhile only its own items may queue on it. */
	void drain() { detail::checked(cmwq_drain_workqueue(wq_), "cmwq_drain_workqueue"); }
	void set_max_active(int max_active)
	{
		detail::checked(cmwq_workqueue_set_max_active(wq_, max_active),
				"cmwq_workqueue_set_max_active");
	}
	void set_min_active(int min_active)
	{
		detail::checked(cmwq_workqueue_set_min_active(wq_, min_active),
				"cmwq_workqueue_set_min_active");
	}
	/* EINVAL: it was made without a bound on what waits. */
	void set_max_waiting(std::size_t max_waiting)
	{
		detail::checked(cmwq_workqueue_set_max_waiting(wq_, max_waiting),
				"cmwq_workqueue_set_max_waiting");
	}
	/* For the functions of cmwq.h. nullptr: it was moved from. */
	cmwq_workqueue *native_handle() const { return wq_; }

private:
	workqueue(cmwq_workqueue *wq, const std::string &name) : wq_(wq), name_(name) {}

	template <typename Q> static queued queue_by(Q &&queue, cmwq::work &work)
	{
		int fate = queue(work.native_handle());

		if (fate == -ENOBUFS || fate == -ETIMEDOUT)
			return queued::full;
		switch (detail::checked(fate, "cmwq: queueing")) {
		case CMWQ_QUEUED_DRAINING:
			detail::fail(ESHUTDOWN, "cmwq: the workqueue is drained or destroyed");
		case CMWQ_QUEUED_ACCEPTED:
			return queued::accepted;
		case CMWQ_QUEUED_PENDING:
			return queued::pending;
		default:
			return queued::disabled;
		}
	}
	template <typename Q, typename F, typename... Args>
	static auto submit_by(Q &&queue, F &&func, Args &&...args)
	{
		constexpr bool fits = detail::calls<F, Args...>;

		static_assert(fits, "cmwq: submit(function, arguments...) calls "
				    "function(arguments...), and this function does not take these "
				    "arguments (copies of them: std::ref(x) is a reference)");
		if constexpr (fits) {
			using R = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;
			using Item = detail::promised<R, std::decay_t<F>, std::decay_t<Args>...>;
			Item item{{}, std::forward<F>(func), {std::forward<Args>(args)...}};
			std::optional<std::future<R>> future = item.promise.get_future();
			bool has_room = detail::offer_one_shot(queue, std::move(item));

			if (!has_room)
				future.reset();
			return future;
		}
	}
	void reset() noexcept
	{
		if (cmwq_workqueue *wq = std::exchange(wq_, nullptr))
			cmwq_destroy_workqueue(wq);
	}

	cmwq_workqueue *wq_;
	std::string name_;
};

/* Where the items of a scope are spawned; made by cmwq::scope(). */
class scope_items {
public:
	scope_items(const scope_items &) = delete;
	scope_items &operator=(const scope_items &) = delete;

	/* Runs func() as an item. Items may spawn items of the same scope. */
	template <typename F> void spawn(F &&func)
	{
		using Entry = entry<std::decay_t<F>>;
		auto item = std::make_unique<Entry>(*this, detail::callable(std::forward<F>(func)));
		std::lock_guard<std::mutex> lock(mutex_);

		detail::queue_new(wq_, item.get());
		item->below = newest_;
		newest_ = item.release();
	}

private:
	template <typename F> friend decltype(auto) scope(workqueue &wq, F &&func);

	struct base : cmwq_work {
		base *below = nullptr; /* guarded by mutex_ */

		base() : cmwq_work() {}
		virtual ~base() = default;
	};
	template <typename F> struct entry final : base {
		scope_items &scope;
		F func;

		template <typename G>
		entry(scope_items &s, G &&g) : scope(s), func(std::forward<G>(g))
		{
			cmwq_init_work(this, run);
		}
		static void run(cmwq_work *work) noexcept
		{
			entry *self = static_cast<entry *>(static_cast<base *>(work));

			try {
				self->func();
			} catch (...) {
				self->scope.threw(std::current_exception());
			}
		}
	};

	explicit scope_items(cmwq_workqueue *wq) : wq_(wq) {}
	~scope_items() { join(); }

	void threw(std::exception_ptr exception) noexcept
	{
		std::lock_guard<std::mutex> lock(mutex_);

		if (!exception_)
			exception_ = std::move(exception);
	}
	/* Waits for all items, those included that they spawn meanwhile. */
	void join() noexcept
	{
		for (;;) {
			std::unique_ptr<base> item;
			{
				std::lock_guard<std::mutex> lock(mutex_);

				if (newest_ == nullptr)
					return;
				/* The newest first: it is the one that workers come to last. */
				item.reset(newest_);
				newest_ = item->below;
			}
			/*
			 * In an item: one that cannot begin before that ends is taken back, unless
			 * it has begun meanwhile.
			 */
			if (cmwq_current_work() != nullptr) {
				if (cmwq_flush_work_timeout_ns(item.get(), UINT64_MAX) != -EDEADLK)
					continue;
				if (cmwq_cancel_work(item.get())) {
					const std::error_category &errors = std::generic_category();
					std::system_error error(EDEADLK, errors, "cmwq::scope");

					threw(std::make_exception_ptr(error));
					continue;
				}
			}
			cmwq_flush_work(item.get());
		}
	}
	void rethrow()
	{
		if (exception_)
			std::rethrow_exception(exception_);
	}

	cmwq_workqueue *wq_;
	std::mutex mutex_;
	base *newest_ = nullptr;
	std::exception_ptr exception_;
};

/*
 * Calls func(items) with a scope_items whose items may refer to what outlives this call. Returns
 * when all of them have ended, what `func` returns. Throws what `func` threw, or else what the
 * first item that threw has thrown. In a work item the wait counts as blocking, so scopes nest; but
 * items that wait keep their places, and when as many wait as the workqueue's max_active, for items
 * of the same workqueue, they wait for ever. If the caller itself has the only place (of
 * max_active, of a group, of an ordered workqueue), the items do not run, and it throws
 * std::system_error with EDEADLK.
 */
template <typename F> decltype(auto) scope(workqueue &wq, F &&func)
{
	constexpr bool fits = std::is_invocable_v<F, scope_items &>;

	static_assert(fits, "cmwq: scope(queue, function) calls function(items): a function that "
			    "takes a scope_items &, as [&](auto &items) { items.spawn(...); }");
	if constexpr (fits) {
		using R = std::invoke_result_t<F, scope_items &>;
		scope_items items(wq.native_handle());

		if constexpr (std::is_void_v<R>) {
			std::forward<F>(func)(items);
			items.join();
			items.rethrow();
		} else {
			R result = std::forward<F>(func)(items);

			items.join();
			items.rethrow();
			return static_cast<R>(std::forward<R>(result));
		}
	}
}

/*
 * Returns func(), which is about to block in something that cmwq does not know of: another item
 * runs meanwhile.
 */
template <typename F> decltype(auto) blocking(F &&func)
{
	constexpr bool fits = std::is_invocable_v<F>;

	static_assert(fits, "cmwq: blocking(function) calls function(), without arguments");
	if constexpr (fits) {
		using R = std::invoke_result_t<F>;
		std::promise<R> promise;
		auto call = [&]() noexcept { detail::fulfil<R>(promise, std::forward<F>(func)); };

		cmwq_blocking([](void *arg) { (*static_cast<decltype(call) *>(arg))(); }, &call);
		return promise.get_future().get();
	}
}

} // namespace cmwq

#endif
