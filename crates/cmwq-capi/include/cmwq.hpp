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
 * Beside these: cmwq::work and cmwq::delayed_work for items that are queued again and again,
 * cmwq::completion and cmwq::completion_queue for results, cmwq::group and cmwq::threads for what
 * workqueues share. Functions of cmwq.h that need no C++ are called as they are.
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

} // namespace cmwq

/* What workqueues queue. */
#include "cmwq_items.hpp"

namespace cmwq {

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
	/* A limit that it shares with others: cmwq::group. */
	cmwq_group *group = nullptr;
	/* Threads of its own: cmwq::threads. */
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
	/* One that every process has; the destructor leaves it alone. It has no name here. */
	static workqueue system(cmwq_system which = CMWQ_SYSTEM_DFL)
	{
		cmwq_workqueue *wq = cmwq_system_workqueue(which);

		if (!wq)
			detail::fail(errno, "cmwq_system_workqueue");
		workqueue made(wq, {});

		made.is_owned_ = false;
		return made;
	}
	workqueue(workqueue &&other) noexcept
	    : wq_(std::exchange(other.wq_, nullptr)), name_(std::move(other.name_)),
	      is_owned_(other.is_owned_)
	{
	}
	workqueue &operator=(workqueue &&other) noexcept
	{
		if (this != &other) {
			reset();
			wq_ = std::exchange(other.wq_, nullptr);
			name_ = std::move(other.name_);
			is_owned_ = other.is_owned_;
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
	template <typename CmwqF, typename... CmwqArgs>
	auto submit(CmwqF &&func, CmwqArgs &&...args)
	{
		if constexpr (detail::calls<CmwqF, CmwqArgs...>) {
			auto future =
				try_submit(std::forward<CmwqF>(func),
					   std::forward<CmwqArgs>(args)...);

			detail::must_have_room(future.has_value());
			return std::move(*future);
		} else {
			(void)try_submit(std::forward<CmwqF>(func),
					 std::forward<CmwqArgs>(args)...);
			/* The assertion's message stays alone where the result is kept. */
			return std::future<void>();
		}
	}
	/* The same; std::nullopt: it is full, and `func` was destroyed without a call. */
	template <typename CmwqF, typename... CmwqArgs>
	[[nodiscard]] auto try_submit(CmwqF &&func, CmwqArgs &&...args)
	{
		return submit_by(detail::now{wq_}, std::forward<CmwqF>(func),
				 std::forward<CmwqArgs>(args)...);
	}
	/*
	 * The same, and waits for room, for `timeout` at most. EDEADLK: the caller is one of its
	 * own items.
	 */
	template <typename CmwqF, typename... CmwqArgs>
	[[nodiscard]] auto submit_within(std::chrono::nanoseconds timeout, CmwqF &&func,
					 CmwqArgs &&...args)
	{
		return submit_by(detail::within{wq_, timeout}, std::forward<CmwqF>(func),
				 std::forward<CmwqArgs>(args)...);
	}
	/* Runs func() as an item that no thread waits for. ENOBUFS: it is full. */
	template <typename CmwqF> void execute(CmwqF &&func)
	{
		detail::must_have_room(try_execute(std::forward<CmwqF>(func)));
	}
	/* The same; false: it is full, and `func` was destroyed without a call. */
	template <typename CmwqF> [[nodiscard]] bool try_execute(CmwqF &&func)
	{
		return detail::offer_one_shot(detail::now{wq_},
					      detail::callable(std::forward<CmwqF>(func)));
	}
	/* The same, and waits for room, for `timeout` at most. EDEADLK: as submit_within(). */
	template <typename CmwqF>
	[[nodiscard]] bool execute_within(std::chrono::nanoseconds timeout, CmwqF &&func)
	{
		return detail::offer_one_shot(detail::within{wq_, timeout},
					      detail::callable(std::forward<CmwqF>(func)));
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
	 * Queues `work` from `cpu`, or from a CPU of NUMA node `node`. false: it was pending
	 * already, or is disabled. true also if the workqueue is being drained, and drops it.
	 */
	bool queue_on(int cpu, cmwq::work &work)
	{
		auto call = [&] { return cmwq_queue_work_on(cpu, wq_, work.native_handle()); };

		return detail::said(call, "cmwq_queue_work_on");
	}
	bool queue_node(int node, cmwq::work &work)
	{
		auto call = [&] { return cmwq_queue_work_node(node, wq_, work.native_handle()); };

		return detail::said(call, "cmwq_queue_work_node");
	}
	/*
	 * Queues the items from `first` to `last`, which point to pointers to cmwq::work, in this
	 * order; for up to 128 at a time one publish is paid for. Returns how many were accepted.
	 */
	template <typename CmwqIt> std::size_t queue_batch(CmwqIt first, CmwqIt last)
	{
		return queue_batch_by(first, last, [&](cmwq_work **works, std::size_t n) {
			return cmwq_queue_work_batch(wq_, works, n);
		});
	}
	/* The same, and writes the fate of each, a cmwq::queued, to `fates`. */
	template <typename CmwqIt, typename CmwqOut>
	std::size_t queue_batch(CmwqIt first, CmwqIt last, CmwqOut fates)
	{
		return queue_batch_by(first, last, [&](cmwq_work **works, std::size_t n) {
			int said[batch];
			std::size_t accepted = cmwq_queue_work_batch_fates(wq_, works, n, said);

			for (std::size_t i = 0; i < n; i++)
				*fates++ = batch_fate(said[i]);
			return accepted;
		});
	}
	/* Enables `work`, and queues it if that made it possible. true: it was queued. */
	bool enable_and_queue(cmwq::work &work)
	{
		auto call = [&] { return cmwq_enable_and_queue_work(wq_, work.native_handle()); };

		return detail::said(call, "cmwq_enable_and_queue_work");
	}
	/*
	 * Queues `item` when `delay` has passed, and about a millisecond later at most. pending:
	 * its timer was armed, or it was queued. ESHUTDOWN: the workqueue is being drained.
	 */
	queued queue_after(std::chrono::nanoseconds delay, delayed_work &item)
	{
		return fate(cmwq_try_queue_delayed_work_ns(wq_, item.native_handle(),
							   detail::nanoseconds(delay)));
	}
	/* The same, from `cpu`. false: it was pending already, or is disabled. */
	bool queue_after_on(int cpu, std::chrono::nanoseconds delay, delayed_work &item)
	{
		auto call = [&] {
			return cmwq_queue_delayed_work_on_ns(cpu, wq_, item.native_handle(),
							     detail::nanoseconds(delay));
		};

		return detail::said(call, "cmwq_queue_delayed_work_on_ns");
	}
	/*
	 * Queues `item` when `delay` has passed from now, wherever it is. moved: it was pending,
	 * and that instance was moved. ESHUTDOWN: the workqueue is being drained; an instance that
	 * was pending is lost.
	 */
	queued requeue_after(std::chrono::nanoseconds delay, delayed_work &item)
	{
		return fate(cmwq_try_mod_delayed_work_ns(wq_, item.native_handle(),
							 detail::nanoseconds(delay)));
	}
	/* The same, from `cpu`. true: it was pending. */
	bool requeue_after_on(int cpu, std::chrono::nanoseconds delay, delayed_work &item)
	{
		auto call = [&] {
			return cmwq_mod_delayed_work_on_ns(cpu, wq_, item.native_handle(),
							   detail::nanoseconds(delay));
		};

		return detail::said(call, "cmwq_mod_delayed_work_on_ns");
	}
	/*
	 * The same, if the item is as `which` says, which is checked and done in one step. true: it
	 * was pending.
	 */
	bool requeue_after_if(cmwq_mod_if which, std::chrono::nanoseconds delay, delayed_work &item,
			      int cpu = CMWQ_CPU_ANY)
	{
		auto call = [&] {
			return cmwq_mod_delayed_work_if_ns(which, cpu, wq_, item.native_handle(),
							   detail::nanoseconds(delay), nullptr, 0);
		};

		return detail::said(call, "cmwq_mod_delayed_work_if_ns");
	}
	/*
	 * Waits until everything queued before has run. EDEADLK: called from one of its own items.
	 */
	void flush() { detail::checked(cmwq_flush_workqueue(wq_), "cmwq_flush_workqueue"); }
	/* Waits until it is empty; meanwhile only its own items may queue on it. */
	void drain() { detail::checked(cmwq_drain_workqueue(wq_), "cmwq_drain_workqueue"); }
	/* As flush(), for `timeout` at most. false: items have not ended by then. */
	[[nodiscard]] bool flush_for(std::chrono::nanoseconds timeout)
	{
		return has_ended(cmwq_flush_workqueue_timeout_ns(wq_, detail::nanoseconds(timeout)),
				 "cmwq_flush_workqueue_timeout_ns");
	}
	/* As drain(), for `timeout` at most. false: items have not ended by then. */
	[[nodiscard]] bool drain_for(std::chrono::nanoseconds timeout)
	{
		return has_ended(cmwq_drain_workqueue_timeout_ns(wq_, detail::nanoseconds(timeout)),
				 "cmwq_drain_workqueue_timeout_ns");
	}
	/*
	 * Ends the workqueue, which this object owns, as cmwq_destroy_workqueue_timeout_ns() does.
	 * true: it has ended, and the object is as one that was moved from. false: items have not
	 * ended by then; the workqueue accepts no others, and the destructor waits for them.
	 */
	[[nodiscard]] bool end_within(std::chrono::nanoseconds timeout)
	{
		auto said = cmwq_destroy_workqueue_timeout_ns(wq_, detail::nanoseconds(timeout));
		bool ended = has_ended(said, "cmwq_destroy_workqueue_timeout_ns");

		if (ended)
			wq_ = nullptr;
		return ended;
	}
	/* What has not ended: a line, and one more for each function that runs. */
	std::string unfinished() const
	{
		char text[4096];
		long length = cmwq_workqueue_unfinished(wq_, text, sizeof(text));

		if (length < 0)
			detail::fail(static_cast<int>(-length), "cmwq_workqueue_unfinished");
		return text;
	}
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
	/* Whether an item queued from `cpu` would have to wait for a place. A hint. */
	bool congested(int cpu = CMWQ_CPU_ANY) const { return cmwq_workqueue_congested(cpu, wq_); }
	/* Of an unbound one: its attributes. Start from these, or from default_attributes(). */
	cmwq_workqueue_attrs attributes() const
	{
		cmwq_workqueue_attrs attrs = CMWQ_WORKQUEUE_ATTRS_INIT;

		detail::checked(cmwq_get_workqueue_attrs(wq_, &attrs), "cmwq_get_workqueue_attrs");
		return attrs;
	}
	/* What is queued already finishes where it is. EINVAL: not unbound, or a wrong value. */
	void set_attributes(const cmwq_workqueue_attrs &attrs)
	{
		detail::checked(cmwq_apply_workqueue_attrs(wq_, &attrs),
				"cmwq_apply_workqueue_attrs");
	}
	/* A number that no other workqueue has while this one lives. */
	std::uint64_t id() const { return cmwq_workqueue_id(wq_); }
	/* For the functions of cmwq.h. nullptr: it was moved from. */
	cmwq_workqueue *native_handle() const { return wq_; }

private:
	workqueue(cmwq_workqueue *wq, const std::string &name) : wq_(wq), name_(name) {}

	/* What a wait with a deadline has said. */
	static bool has_ended(int said, const char *call)
	{
		if (said == -ETIMEDOUT)
			return false;
		detail::checked(said, call);
		return true;
	}

	/* How many items are published at a time. */
	static constexpr std::size_t batch = 128;

	/* What the C function has said; draining is one of them. */
	static queued batch_fate(int fate)
	{
		if (fate == -ENOBUFS || fate == -ETIMEDOUT)
			return queued::full;
		switch (detail::checked(fate, "cmwq: queueing")) {
		case CMWQ_QUEUED_DRAINING:
		case CMWQ_QUEUED_REMOVED:
			return queued::draining;
		case CMWQ_QUEUED_ACCEPTED:
			return queued::accepted;
		case CMWQ_QUEUED_PENDING:
			return queued::pending;
		case CMWQ_QUEUED_MOVED:
			return queued::moved;
		default:
			return queued::disabled;
		}
	}
	/* The same; draining is an error. */
	static queued fate(int said)
	{
		queued fate = batch_fate(said);

		if (fate == queued::draining)
			detail::fail(ESHUTDOWN, "cmwq: the workqueue is drained or destroyed");
		return fate;
	}
	template <typename CmwqQ> static queued queue_by(CmwqQ &&queue, cmwq::work &work)
	{
		return fate(queue(work.native_handle()));
	}
	template <typename CmwqIt, typename CmwqQ>
	static std::size_t queue_batch_by(CmwqIt first, CmwqIt last, CmwqQ &&queue)
	{
		std::size_t accepted = 0;

		while (first != last) {
			cmwq_work *works[batch];
			std::size_t n = 0;

			for (; n < batch && first != last; ++first)
				works[n++] = (*first)->native_handle();
			accepted += queue(works, n);
		}
		return accepted;
	}
	template <typename CmwqQ, typename CmwqF, typename... CmwqArgs>
	static auto submit_by(CmwqQ &&queue, CmwqF &&func, CmwqArgs &&...args)
	{
		constexpr bool fits = detail::calls<CmwqF, CmwqArgs...>;

		static_assert(fits, "cmwq: submit(function, arguments...) calls "
				    "function(arguments...), and this function does not take these "
				    "arguments (copies of them: std::ref(x) is a reference)");
		if constexpr (fits) {
			using CmwqR = std::invoke_result_t<std::decay_t<CmwqF>,
							   std::decay_t<CmwqArgs>...>;
			using CmwqItem = detail::promised<CmwqR, std::decay_t<CmwqF>,
							  std::decay_t<CmwqArgs>...>;
			CmwqItem item{{},
				      std::forward<CmwqF>(func),
				      {std::forward<CmwqArgs>(args)...}};
			std::optional<std::future<CmwqR>> future = item.promise.get_future();
			bool has_room = detail::offer_one_shot(queue, std::move(item));

			if (!has_room)
				future.reset();
			return future;
		} else {
			return std::optional<std::future<void>>();
		}
	}
	void reset() noexcept
	{
		cmwq_workqueue *wq = std::exchange(wq_, nullptr);

		if (wq && is_owned_)
			cmwq_destroy_workqueue(wq);
	}

	cmwq_workqueue *wq_;
	std::string name_;
	bool is_owned_ = true;
};

/* Where the items of a scope are spawned; made by cmwq::scope(). */
class scope_items {
public:
	scope_items(const scope_items &) = delete;
	scope_items &operator=(const scope_items &) = delete;

	/* Runs func() as an item. Items may spawn items of the same scope. */
	template <typename CmwqF> void spawn(CmwqF &&func)
	{
		using CmwqEntry = entry<std::decay_t<CmwqF>>;
		auto item = std::make_unique<CmwqEntry>(
			*this, detail::callable(std::forward<CmwqF>(func)));

		/*
		 * Without the lock: queueing may warn, and the handler of warnings may wait for
		 * items, which may spawn. join() does not end meanwhile, since it begins after what
		 * the scope's maker spawns, and waits for items that spawn.
		 */
		detail::queue_new(wq_, item.get());
		std::lock_guard<std::mutex> lock(mutex_);

		item->below = newest_;
		newest_ = item.release();
	}

private:
	template <typename CmwqF> friend decltype(auto) scope(workqueue &wq, CmwqF &&func);

	struct base : cmwq_work {
		base *below = nullptr; /* guarded by mutex_ */

		base() : cmwq_work() {}
		virtual ~base() = default;
	};
	template <typename CmwqF> struct entry final : base {
		scope_items &scope;
		CmwqF func;

		template <typename CmwqG>
		entry(scope_items &s, CmwqG &&g) : scope(s), func(std::forward<CmwqG>(g))
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
template <typename CmwqF> decltype(auto) scope(workqueue &wq, CmwqF &&func)
{
	constexpr bool fits = std::is_invocable_v<CmwqF, scope_items &>;

	static_assert(fits, "cmwq: scope(queue, function) calls function(items): a function that "
			    "takes a scope_items &, as [&](auto &items) { items.spawn(...); }");
	if constexpr (fits) {
		using CmwqR = std::invoke_result_t<CmwqF, scope_items &>;
		scope_items items(wq.native_handle());

		if constexpr (std::is_void_v<CmwqR>) {
			std::forward<CmwqF>(func)(items);
			items.join();
			items.rethrow();
		} else {
			CmwqR result = std::forward<CmwqF>(func)(items);

			items.join();
			items.rethrow();
			return static_cast<CmwqR>(std::forward<CmwqR>(result));
		}
	}
}

/*
 * Returns func(), which is about to block in something that cmwq does not know of: another item
 * runs meanwhile.
 */
template <typename CmwqF> decltype(auto) blocking(CmwqF &&func)
{
	constexpr bool fits = std::is_invocable_v<CmwqF>;

	static_assert(fits, "cmwq: blocking(function) calls function(), without arguments");
	if constexpr (fits) {
		using CmwqR = std::invoke_result_t<CmwqF>;
		std::promise<CmwqR> promise;
		auto call = [&]() noexcept {
			detail::fulfil<CmwqR>(promise, std::forward<CmwqF>(func));
		};

		cmwq_blocking([](void *arg) { (*static_cast<decltype(call) *>(arg))(); }, &call);
		return promise.get_future().get();
	}
}

} // namespace cmwq

/* Completions and completion queues. */
#include "cmwq_cq.hpp"
/* Groups, threads, attributes, CPUs. */
#include "cmwq_process.hpp"

#endif
