/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong while a sandbox was made, as a typed error. */
#include "engine/inside/inside.h"

static const char *const step_texts[PROTO_STEP_MAX_] = {
#define S(name, what) [PROTO_STEP_##name] = what,
#include "engine/inside/steps.tbl.h"
#undef S
};

/* Some errnos say more than "unavailable". */
static enum err_code step_code(uint32_t step, int errnum)
{
	switch (errnum) {
	case ENOENT:
		return step == PROTO_STEP_IMAGE ? ERR_IMAGE_MISSING : ERR_ENGINE_UNAVAILABLE;
	case EMFILE:
	case ENFILE:
		return ERR_TOO_MANY_FILES;
	case ENOSPC:
	case EDQUOT:
		return ERR_STORE_FULL;
	case EROFS:
		return ERR_STORE_READ_ONLY;
	case EBUSY:
		return step == PROTO_STEP_STORED ? ERR_SANDBOX_IN_USE : ERR_ENGINE_UNAVAILABLE;
	case ESRCH:
		return step == PROTO_STEP_HELPER ? ERR_SANDBOX_LOST : ERR_ENGINE_UNAVAILABLE;
	case ENOMEM:
		return ERR_OUT_OF_MEMORY;
	default:
		return ERR_ENGINE_UNAVAILABLE;
	}
}

void inside_step_error(struct err *e, uint32_t step, int errnum)
{
	const char *what =
	    step < PROTO_STEP_MAX_ && step_texts[step] ? step_texts[step] : "an unknown step";
	enum err_code code = step_code(step, errnum);

	if (code == ERR_IMAGE_MISSING)
		(void)err_set(e, code, 0, "the image is not there");
	else if (code == ERR_SANDBOX_IN_USE)
		(void)err_set(e, code, 0, "another engine has the sandbox open");
	else if (code == ERR_STORE_FULL)
		(void)err_set(e, code, errnum, "the disk of this machine is full");
	else if (step == PROTO_STEP_STORED && errnum == ENOPKG)
		(void)err_set(e, code, 0, "a stored workspace needs mke2fs (package e2fsprogs)");
	else
		(void)err_set(e, code, errnum > 0 ? errnum : EIO, "a sandbox cannot be made (%s)",
			      what);
}
