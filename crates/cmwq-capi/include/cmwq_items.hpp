/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Work items in C++: what cmwq::workqueue queues. Part of <cmwq.hpp>, which includes it. */
#ifndef CMWQ_HPP
#include "cmwq.hpp"
#elif !defined(CMWQ_ITEMS_HPP)
#define CMWQ_ITEMS_HPP

namespace cmwq {

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

/* What `call()` answers. false with an error number in errno is an error. */
template <typename CmwqF> bool said(CmwqF &&call, const char *what)
{
	errno = 0;
	bool answer = call();

	if (!answer && errno != 0)
		fail(errno, what);
	return answer;
}

/* Queues an item that no other thread has. */
inline void queue_new(cmwq_workqueue *wq, cmwq_work *work)
{
	int fate = checked(cmwq_try_queue_work(wq, work), "cmwq: queueing");

	if (fate != CMWQ_QUEUED_ACCEPTED)
		fail(ESHUTDOWN, "cmwq: the workqueue is being drained or destroyed");
}

/* An item that is freed by its own run. */
template <typename CmwqF> struct one_shot final : cmwq_work {
	CmwqF func;

	template <typename CmwqG>
	explicit one_shot(CmwqG &&g) : cmwq_work(), func(std::forward<CmwqG>(g))
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
template <typename CmwqF, typename CmwqQ> bool offer_one_shot(CmwqQ &&queue, CmwqF &&func)
{
	auto item = std::make_unique<one_shot<std::decay_t<CmwqF>>>(std::forward<CmwqF>(func));
	int fate = queue(item.get());

	if (fate == -ENOBUFS || fate == -ETIMEDOUT)
		return false;
	if (checked(fate, "cmwq: queueing") != CMWQ_QUEUED_ACCEPTED)
		fail(ESHUTDOWN, "cmwq: the workqueue is being drained or destroyed");
	/* The run frees it. Nothing was freed yet in any other way, and nothing below throws. */
	(void)item.release();
	return true;
}

/* What cmwq_flush_work_timeout_ns() has returned: false if the time was over. */
inline bool ended_in_time(int ended)
{
	if (ended == -ETIMEDOUT)
		return false;
	checked(ended, "cmwq: flushing an item");
	return true;
}

/*
 * What cmwq_flush_work() has returned, with errno 0 before it. (Under race detectors that is a
 * macro, so it is no argument of this.)
 */
inline bool flushed(bool waited)
{
	if (!waited && errno == EDEADLK)
		fail(EDEADLK, "cmwq: flushing an item");
	return waited;
}

inline void must_have_room(bool has_room)
{
	if (!has_room)
		fail(ENOBUFS, "cmwq: as many items wait as max_waiting allows");
}

/* Whether `CmwqF` can be called with copies of `CmwqArgs`. */
template <typename CmwqF, typename... CmwqArgs>
inline constexpr bool calls = std::is_invocable_v<std::decay_t<CmwqF>, std::decay_t<CmwqArgs>...>;

/* `func`, which an item is to call without arguments. One that wants some is one error. */
template <typename CmwqF> decltype(auto) callable(CmwqF &&func) noexcept
{
	constexpr bool fits = std::is_invocable_v<std::decay_t<CmwqF> &>;

	static_assert(fits, "cmwq: an item calls its function without arguments, and this one "
			    "wants some, or is no function; pass a lambda that has them, or "
			    "submit(function, arguments...)");
	if constexpr (fits)
		return std::forward<CmwqF>(func);
	else
		return [] {};
}

/* Fulfils `promise` with what `func` returns or throws. */
template <typename CmwqR, typename CmwqF>
void fulfil(std::promise<CmwqR> &promise, CmwqF &&func) noexcept
{
	try {
		if constexpr (std::is_void_v<CmwqR>) {
			std::forward<CmwqF>(func)();
			promise.set_value();
		} else {
			promise.set_value(std::forward<CmwqF>(func)());
		}
	} catch (...) {
		promise.set_exception(std::current_exception());
	}
}

/* Calls `func(args...)` for a future. A type of its own, so that tools show `CmwqF`. */
template <typename CmwqR, typename CmwqF, typename... CmwqArgs> struct promised {
	std::promise<CmwqR> promise;
	CmwqF func;
	std::tuple<CmwqArgs...> args;

	void operator()()
	{
		fulfil<CmwqR>(promise, [&]() -> CmwqR {
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
	template <typename CmwqF,
		  typename = std::enable_if_t<!std::is_same_v<std::decay_t<CmwqF>, work>>>
	explicit work(CmwqF &&func) : func_(detail::callable(std::forward<CmwqF>(func)))
	{
		cmwq_init_work(&item_, run<std::decay_t<CmwqF>>);
		item_.self = this;
	}
	work(const work &) = delete;
	work &operator=(const work &) = delete;
	~work() { cmwq_disable_work_sync(&item_); }

	/*
	 * Waits until what was pending or running has run. false: there was nothing. EDEADLK: it
	 * cannot end before the calling item does, and is as it was.
	 */
	bool flush()
	{
		errno = 0;
		return detail::flushed(cmwq_flush_work(&item_));
	}
	/* The same, for `timeout` at most. false: it has not ended by then. */
	[[nodiscard]] bool flush_for(std::chrono::nanoseconds timeout)
	{
		return detail::ended_in_time(
			cmwq_flush_work_timeout_ns(&item_, detail::nanoseconds(timeout)));
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
	/* What it does: CMWQ_WORK_BUSY_PENDING, CMWQ_WORK_BUSY_RUNNING, both or 0. A hint. */
	unsigned int busy() const { return cmwq_work_busy(&item_); }
	/* Whether the calling function is the one of this item. */
	bool is_current() const { return cmwq_current_work() == &item_; }
	cmwq_work *native_handle() { return &item_; }

private:
	struct item : cmwq_work {
		work *self = nullptr;
	};

	/* A function for each type, so that tools show `CmwqF`. */
	template <typename CmwqF> static void run(cmwq_work *item) noexcept
	{
		static_cast<struct item *>(item)->self->func_();
	}

	struct item item_ = {};
	std::function<void()> func_;
};

/*
 * A reusable work item with a timer: see workqueue::queue_after(). Otherwise as cmwq::work. An
 * armed timer is not seen by flush(), drain() and the destructor of its workqueue: this destructor
 * stops it, so declare the item after the workqueue.
 */
class delayed_work {
public:
	template <typename CmwqF,
		  typename = std::enable_if_t<!std::is_same_v<std::decay_t<CmwqF>, delayed_work>>>
	explicit delayed_work(CmwqF &&func) : func_(detail::callable(std::forward<CmwqF>(func)))
	{
		cmwq_init_delayed_work(&item_, run<std::decay_t<CmwqF>>);
		item_.self = this;
	}
	delayed_work(const delayed_work &) = delete;
	delayed_work &operator=(const delayed_work &) = delete;
	~delayed_work() { cmwq_disable_delayed_work_sync(&item_); }

	/*
	 * Stops the timer and queues at once, and waits for the run. false: there was nothing.
	 * EDEADLK: as work::flush(); it is queued then.
	 */
	bool flush()
	{
		errno = 0;
		return detail::flushed(cmwq_flush_delayed_work(&item_));
	}
	/* The same, for `timeout` at most: as work::flush_for(). */
	[[nodiscard]] bool flush_for(std::chrono::nanoseconds timeout)
	{
		return detail::ended_in_time(cmwq_flush_delayed_work_timeout_ns(
			&item_, detail::nanoseconds(timeout)));
	}
	/* These are as those of cmwq::work; an armed timer counts as pending. */
	bool cancel() { return cmwq_cancel_delayed_work(&item_); }
	bool cancel_sync() { return cmwq_cancel_delayed_work_sync(&item_); }
	bool disable() { return cmwq_disable_delayed_work(&item_); }
	bool disable_sync() { return cmwq_disable_delayed_work_sync(&item_); }
	bool enable() { return cmwq_enable_delayed_work(&item_); }
	bool pending() const { return cmwq_work_pending(&item_.work); }
	unsigned int busy() const { return cmwq_work_busy(&item_.work); }
	bool is_current() const { return cmwq_current_work() == &item_.work; }
	/* How long its timer still runs, in whole milliseconds; 0: it is not armed. A hint. */
	std::chrono::nanoseconds left() const
	{
		return std::chrono::nanoseconds(cmwq_delayed_work_left_ns(&item_));
	}
	cmwq_delayed_work *native_handle() { return &item_; }

private:
	struct item : cmwq_delayed_work {
		delayed_work *self = nullptr;
	};

	/* The inner item is the first member, so its address is that of the outer one. */
	template <typename CmwqF> static void run(cmwq_work *work) noexcept
	{
		auto *outer = CMWQ_CONTAINER_OF(work, cmwq_delayed_work, work);

		static_cast<struct item *>(outer)->self->func_();
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
	full,
	/* It was pending: that instance runs after the new delay. From requeue_after() only. */
	moved,
	/* The workqueue is being drained: nothing will run. From queue_batch() only. */
	draining
};

} // namespace cmwq

#endif
