/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_PAGE_H
#define KHOST_ASM_PAGE_H

/* No memory management is hosted: addresses are the process's own. */
#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#define PAGE_OFFSET 0UL
#define ARCH_PFN_OFFSET 0UL

#ifndef __ASSEMBLY__
typedef struct { unsigned long pte; } pte_t;
typedef struct { unsigned long pgd; } pgd_t;
typedef struct { unsigned long pgprot; } pgprot_t;
typedef struct page *pgtable_t;

#define pte_val(x) ((x).pte)
#define pgd_val(x) ((x).pgd)
#define pgprot_val(x) ((x).pgprot)
#define __pte(x) ((pte_t) { x })
#define __pgprot(x) ((pgprot_t) { x })
#define __va(x) ((void *)(unsigned long)(x))
#define __pa(x) ((unsigned long)(x))
#define virt_to_phys(x) __pa(x)
#define phys_to_virt(x) __va(x)
#define pfn_valid(pfn) 1
#define virt_to_page(x) ((struct page *)(x))
#define page_to_virt(x) ((void *)(x))
#define virt_addr_valid(x) 1
#define ZERO_PAGE(vaddr) ((struct page *)0)
#define clear_page(page) memset((page), 0, PAGE_SIZE)
#define copy_page(to, from) memcpy((to), (from), PAGE_SIZE)
#define clear_user_page(page, vaddr, pg) clear_page(page)
#define copy_user_page(to, from, vaddr, pg) copy_page(to, from)
#endif

#include <asm-generic/pgtable-nopmd.h>
#include <asm-generic/memory_model.h>

#endif
